"""Pretrained backbones without their heads: images → features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from riskmatch.models.lite0 import lite0
from riskmatch.models.preprocess import Preprocess
from riskmatch.models.timm_body import timm_body
from riskmatch.validation import check_option

TIMM = "timm:"
LEAST = 32
"""Pixels: the least side at which nothing shrinks to nothing."""


class Trunk(nn.Module):
    """A backbone up to its features, its own preprocessing first.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → (n, width).
    """

    def __init__(self, preprocess: Preprocess, body: nn.Module, width: int) -> None:
        super().__init__()
        self.preprocess = preprocess
        self.body = body
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """The features."""
        features: Tensor = self.body(self.preprocess(x))
        return features


def trunk(
    name: str, *, pretrained: bool = True, weights: str | None = None, size: int | None = None
) -> Trunk:
    """The backbone ``name``.

    Args:
        name: ``lite0`` (EfficientNet-Lite0, whose weights install with pip), or ``timm:`` and the
            name of any model of timm.
        pretrained: start from published weights; else from random ones.
        weights: start from those in this file.
        size: the side of the images that it sees, in pixels; by default that of its pretraining.

    Example:
        >>> trunk("lite0", pretrained=False).width
        1280
    """
    if size is not None and size < LEAST:
        raise ValueError(f"No backbone sees images of {size} pixels; {LEAST} are the least.")
    if name.startswith(TIMM):
        return Trunk(*timm_body(name.removeprefix(TIMM), pretrained, weights, size))
    check_option("backbone", name, ("lite0", f"{TIMM}NAME"))
    return Trunk(*lite0(pretrained, weights, size))


def trunk_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of a network that are its trunk's.

    Example:
        >>> trunk_options({"size": 64, "head": "cosine"})
        {'size': 64}
    """
    return {name: options[name] for name in ("pretrained", "weights", "size") if name in options}
