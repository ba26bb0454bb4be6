"""A pretrained backbone with a new head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from riskmatch.models.heads import Head, Kind
from riskmatch.models.trunk import Trunk, trunk


class Backbone(nn.Module):
    """A trunk and a head, trained together.

    Args:
        body: images → features.
        head: features → logits.
        freeze_bn: keep BatchNorm in evaluation mode in training too, as DomainBed does: its
            statistics stay those of the pretraining, its weights are trained.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → features (n, width), logits (n, classes).
    """

    def __init__(self, body: Trunk, head: Head, freeze_bn: bool) -> None:
        super().__init__()
        self.trunk = body
        self.head = head
        self.freeze_bn = freeze_bn
        self.train()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features, logits = self.head(self.trunk(x))
        return features, logits

    def train(self, mode: bool = True) -> Backbone:
        """Training mode, or the other; frozen BatchNorm has but one."""
        super().train(mode)
        if self.freeze_bn:
            for layer in self.modules():
                if isinstance(layer, _BatchNorm):
                    layer.eval()
        return self


def backbone(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    dropout: float,
    *,
    pretrained: bool = True,
    weights: str | None = None,
    size: int | None = None,
    freeze_bn: bool | None = None,
    head: Kind = "linear",
    scale: float = 10.0,
    frozen: bool = False,
    views: int = 1,
) -> nn.Module:
    """The network ``name`` with its options.

    Args:
        name: of the backbone, see :func:`~riskmatch.models.trunk.trunk`.
        shape: of an input: images, or features where ``frozen``.
        classes: the number of logits.
        dropout: before the head.
        pretrained: start from published weights.
        weights: start from those in this file.
        size: the side of the images that it sees, in pixels; by default that of its pretraining.
        freeze_bn: see :class:`Backbone`; by default where the weights are not random.
        head: ``"linear"`` or ``"cosine"``.
        scale: of the cosines.
        frozen: train the head alone, on features that :func:`riskmatch.embedding.embed` made.
        views: of each image, in those features; the first is the image as it is.
    """
    if frozen:
        return Head(shape[-1], classes, dropout, head, scale)
    if views != 1:
        raise ValueError("Views are for frozen backbones: set the model option frozen, too.")
    if len(shape) != 3 or shape[0] != 3:
        raise ValueError(f"The network '{name}' needs images (3, h, w), got inputs {shape}.")
    # The trunk's draws are taken back, so that the head's follow from the seed alone.
    with torch.random.fork_rng(devices=[]):
        body = trunk(name, pretrained=pretrained, weights=weights, size=size)
    if freeze_bn is None:
        freeze_bn = pretrained or weights is not None
    return Backbone(body, Head(body.width, classes, dropout, head, scale), freeze_bn)
