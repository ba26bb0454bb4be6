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
from riskmatch.models.trunk import TIMM, Trunk, trunk, trunk_options
from riskmatch.models.weights import WeightsError
from riskmatch.validation import check_option, check_options

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
    "trunk_options",
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
    make = _network(name, options or {})
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make(input_shape, classes, dropout, **options or {})


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raise the error that :func:`build` would, before there are data to build for.

    A backbone is made and dropped: its package may be missing, its name unknown to timm, its
    weights out of reach.

    Raises:
        ValueError: there is no such network, it has no such option or does not take its value, or
            its weights do not fit.
        ImportError: its package is not installed.
    """
    _network(name, options)
    if name == "lite0" or name.startswith(TIMM):
        with torch.random.fork_rng(devices=[]):
            trunk(name, **trunk_options(options))


def _network(name: str, options: Mapping[str, Any]) -> Callable[..., nn.Module]:
    if name.startswith(TIMM):
        make: Callable[..., nn.Module] = partial(backbone, name)
    else:
        check_option("network", name, (*NETWORKS, f"{TIMM}NAME"))
        make = NETWORKS[name]
    check_options(name, options, make)
    return make
