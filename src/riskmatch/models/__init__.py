"""Networks: x → (features, logits)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from riskmatch.models.backbone import Backbone, backbone
from riskmatch.models.cnn import CNN
from riskmatch.models.heads import Head
from riskmatch.models.mlp import MLP
from riskmatch.models.trunk import TIMM, Trunk, trunk
from riskmatch.models.weights import WeightsError
from riskmatch.spelling import check_keywords, check_option

__all__ = [
    "CNN",
    "MLP",
    "NETWORKS",
    "Backbone",
    "Head",
    "Trunk",
    "WeightsError",
    "build",
    "check",
    "trunk",
]

Shape = tuple[int, ...]


def _mlp(
    shape: Shape,
    classes: int,
    dropout: float,
    *,
    widths: Sequence[int] = (256, 256),
    init: Literal["default", "xavier"] = "default",
    single_logit: bool = False,
) -> nn.Module:
    return MLP(math.prod(shape), classes, widths, dropout, init, single_logit)


def _cnn(
    shape: Shape, classes: int, dropout: float, *, widths: Sequence[int] = (64, 128, 128, 128)
) -> nn.Module:
    if len(shape) != 3:
        raise ValueError(f"The network 'cnn' needs images (channels, h, w), got inputs {shape}.")
    return CNN(shape[0], classes, widths, dropout)


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "lite0": partial(backbone, "lite0"),
}
"""The networks by name; their options are their keyword arguments. ``timm:NAME`` is one, too."""


def build(
    name: str,
    input_shape: Shape,
    classes: int,
    dropout: float = 0.0,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> nn.Module:
    """The network ``name`` with weights drawn from ``seed``; torch's own stream stays untouched.

    Example:
        >>> first, second = (build("mlp", (2, 8, 8), 2, seed=1) for _ in range(2))
        >>> torch.equal(first.classifier.weight, second.classifier.weight)
        True
    """
    check(name, options or {})
    make = _network(name)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make(input_shape, classes, dropout, **options or {})


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless there is a network ``name`` that has these options."""
    check_keywords(f"option of {name}", options, _network(name))


def _network(name: str) -> Callable[..., nn.Module]:
    if name.startswith(TIMM):
        return partial(backbone, name)
    check_option("network", name, (*NETWORKS, f"{TIMM}NAME"))
    return NETWORKS[name]
