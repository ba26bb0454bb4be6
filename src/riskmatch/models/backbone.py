"""Pretrained backbones with a new classification head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.modules.batchnorm import _BatchNorm

from riskmatch.models.mlp import ReLUDropout
from riskmatch.models.trunk import Trunk, trunk
from riskmatch.validation import check_option

HeadType = Literal["linear", "cosine"]


class Cosine(nn.Module):
    """Cosine classifier: the logit of class k is scale · cos(features, w_k).

    Shapes: (n, features) → (n, classes).

    Example:
        >>> layer = Cosine(2, 1, scale=10.0)
        >>> bool(layer(torch.randn(5, 2)).abs().max() <= 10)
        True

    Reference: Gidaris and Komodakis, *Dynamic Few-Shot Visual Learning without Forgetting*,
    CVPR 2018.
    """

    def __init__(self, features: int, classes: int, scale: float) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f"scale of a cosine head must be positive, got {scale}.")
        self.scale = scale
        self.weight = nn.Linear(features, classes, bias=False).weight

    def forward(self, features: Tensor) -> Tensor:
        """Compute the logits."""
        return self.scale * linear(normalize(features), normalize(self.weight))


class Head(nn.Module):
    """Dropout followed by a linear or cosine classifier; the whole network on frozen features.

    Args:
        shape: shape of one input, (features,) or (views, features).
        classes: number of logits.
        dropout: share of features dropped in training.
        head: ``"linear"`` or ``"cosine"``.
        scale: factor of the cosines.
        hidden: width of a layer that is trained before the classifier (linear, ReLU, dropout), so
            that methods on features have an effect on features that are cached; 0 has none.

    Shapes: x (n, features) → features (n, features or hidden), logits (n, classes). Of several
    views of each sample, (n, views, features), the first is used.

    Example:
        >>> features, logits = Head((2, 4), 3)(torch.zeros(5, 2, 4))
        >>> features.shape, logits.shape
        (torch.Size([5, 4]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        dropout: float = 0.0,
        *,
        head: HeadType = "linear",
        scale: float = 10.0,
        hidden: int = 0,
    ) -> None:
        super().__init__()
        check_option("head", head, ("linear", "cosine"))
        if hidden < 0:
            raise ValueError(f"hidden must be 0 or a number of units, got {hidden}.")
        if len(shape) not in (1, 2):
            raise ValueError(
                f"The network 'linear' needs features (d,), got inputs {tuple(shape)}."
            )
        features = shape[-1]
        self.featurizer: nn.Module = nn.Dropout(dropout)
        if hidden:
            self.featurizer = nn.Sequential(nn.Linear(features, hidden), ReLUDropout(dropout))
            features = hidden
        self.classifier = (
            nn.Linear(features, classes) if head == "linear" else Cosine(features, classes, scale)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        features = self.featurizer(x[:, 0] if x.ndim == 3 else x)
        return features, self.classifier(features)


class Backbone(nn.Module):
    """Trunk and head as one network.

    Args:
        body: maps images to features.
        head: maps features to logits.
        freeze_bn: keep BatchNorm in evaluation mode during training, as DomainBed does: its
            statistics stay those of pretraining, its weights are trained.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → features (n, width), logits (n, classes).
    """

    def __init__(self, body: Trunk, head: Head, freeze_bn: bool) -> None:
        super().__init__()
        self.trunk = body
        self.head = head
        self.freeze_bn = freeze_bn
        self.train()

    @property
    def featurizer(self) -> nn.Module:
        """Maps images to features."""
        return nn.Sequential(self.trunk, self.head.featurizer)

    @property
    def classifier(self) -> nn.Module:
        """Maps features to logits."""
        return self.head.classifier

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        features, logits = self.head(self.trunk(x))
        return features, logits

    def train(self, mode: bool = True) -> Backbone:
        """Set training mode, except for frozen BatchNorm layers."""
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
    body: Trunk | None = None,
    *,
    pretrained: bool = True,
    weights: str | None = None,
    size: int | None = None,
    freeze_bn: bool | None = None,
    head: HeadType = "linear",
    scale: float = 10.0,
    hidden: int = 0,
    frozen: bool = False,
    views: int = 1,
) -> nn.Module:
    """Build the backbone ``name`` with a new head, or the head alone where ``frozen``.

    Args:
        name: name of the backbone, see :func:`~riskmatch.models.trunk.trunk`.
        shape: shape of one input: an image, or features where ``frozen``.
        classes: number of logits.
        dropout: share of features dropped before the head.
        body: the trunk, where it is built already.
        pretrained: start from published weights.
        weights: file of weights to start from.
        size: side of the images that the network sees, in pixels; by default that of its
            pretraining.
        freeze_bn: keep BatchNorm in evaluation mode; by default true unless the weights are random.
        head: ``"linear"`` or ``"cosine"``.
        scale: factor of the cosines.
        hidden: width of a trained layer before the classifier; see :class:`Head`.
        frozen: train the head alone, on the features of
            :func:`~riskmatch.models.embedding.embed`.
        views: views of each image among those features; the first is the image itself.
    """
    if frozen:
        return Head(shape, classes, dropout, head=head, scale=scale, hidden=hidden)
    if views != 1:
        raise ValueError(f"views={views} needs a frozen backbone: set the model option frozen.")
    if len(shape) != 3 or shape[0] != 3:
        raise ValueError(f"The network '{name}' needs images (3, h, w), got inputs {shape}.")
    if body is None:
        # Random draws of the trunk are undone, so that the head depends on the seed alone.
        with torch.random.fork_rng(devices=[]):
            body = trunk(name, pretrained=pretrained, weights=weights, size=size)
    if freeze_bn is None:
        freeze_bn = pretrained or weights is not None
    top = Head((body.width,), classes, dropout, head=head, scale=scale, hidden=hidden)
    return Backbone(body, top, freeze_bn)
