"""Networks: x → (features, logits)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from riskmatch import registry
from riskmatch.models.backbone import Backbone, Head, backbone
from riskmatch.models.cnn import CNN
from riskmatch.models.mlp import MLP, TableMLP
from riskmatch.models.trunk import TIMM, Trunk, is_backbone, seeded_trunk, trunk
from riskmatch.models.weights import WeightsError
from riskmatch.registry import Part, PartError
from riskmatch.trust import is_own
from riskmatch.validation import check_options

__all__ = [
    "CNN",
    "MLP",
    "NETWORKS",
    "Backbone",
    "Head",
    "TableMLP",
    "Trunk",
    "WeightsError",
    "build",
    "check",
    "find_network",
    "is_backbone",
    "seeded_trunk",
    "trunk",
    "with_cardinalities",
]

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "linear": Head,
    "mlp": MLP,
    "cnn": CNN,
    "table": TableMLP,
    "lite0": partial(backbone, "lite0"),
}
"""Built-in networks by name; their options are keyword arguments. ``timm:NAME`` is one too."""


def build(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    dropout: float = 0.0,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    trunk: Trunk | None = None,
) -> nn.Module:
    """Build the network ``name`` with weights drawn from ``seed``.

    Torch's global random stream is left as it was.

    Args:
        name: a built-in name, ``timm:NAME``, or ``package.module:Name`` of a callable
            ``f(input_shape, classes, dropout, *, option=…) -> nn.Module``.
        input_shape: shape of one sample.
        classes: number of logits.
        dropout: share of activations dropped in training.
        options: keyword arguments of the network.
        seed: seed of the weights.
        trunk: the trunk of a backbone where it is built already, by :func:`seeded_trunk` with the
            same options and seed.

    Example:
        >>> first, second = (build("mlp", (2, 8, 8), 2, seed=1) for _ in range(2))
        >>> torch.equal(first.classifier.weight, second.classifier.weight)
        True
    """
    options = options or {}
    make = _network(name, options)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        body = () if trunk is None else (trunk,)
        network = make(input_shape, classes, dropout, *body, **options)
    if not isinstance(network, nn.Module):
        raise PartError(f"{name} must return a torch.nn.Module, got {type(network).__name__}.")
    return network


def check(name: str, options: Mapping[str, Any]) -> None:
    """Check the name and options of a network without building it.

    Raises:
        ValueError: the network or an option does not exist, or an option has a value of the wrong
            type.
        WeightsError: the file of weights does not exist.
    """
    _network(name, options)
    weights = options.get("weights") if is_backbone(name) else None
    if weights is not None and not Path(weights).is_file():
        raise WeightsError(f"The file of weights {weights} does not exist.")


def with_cardinalities(
    name: str, options: Mapping[str, Any], cardinalities: Sequence[int]
) -> dict[str, Any]:
    """Options of a network for inputs whose last columns are codes of categories.

    A network takes them by its option ``cardinalities``.

    Raises:
        ValueError: there are categories, and the network has no such option.

    Example:
        >>> with_cardinalities("table", {"widths": [8]}, (4, 7))
        {'widths': [8], 'cardinalities': [4, 7]}
    """
    if not cardinalities:
        return dict(options)
    if "cardinalities" not in inspect.signature(find_network(name).value).parameters:
        raise ValueError(
            f"The network {name} takes numbers, and the table has {len(cardinalities)} columns of "
            "categories or booleans. Use the network table, or leave these columns out."
        )
    return {**options, "cardinalities": list(cardinalities)}


def find_network(name: str) -> Part:
    """Find the network ``name``: a model of timm, built in, announced, or ``package.module:Name``.

    Raises:
        PartError: there is no such network, or it is not callable.
    """
    if name.startswith(TIMM):
        return Part("model", name, partial(backbone, name), built_in=True)
    try:
        part = registry.find("model", name)
    except PartError as error:
        if is_own(name):
            raise
        raise PartError(f"{error} {TIMM}NAME is a model of timm.") from None
    if not callable(part.value):
        raise PartError(
            f"{name} is not a network: expected a callable f(input_shape, classes, dropout, *, "
            f"option=…) -> nn.Module, got {part.value!r}."
        )
    return part


def _network(name: str, options: Mapping[str, Any]) -> Callable[..., nn.Module]:
    part = find_network(name)
    make: Callable[..., nn.Module] = part.value
    check_options(name, options, make)
    if not part.built_in:
        try:
            inspect.signature(make).bind((1,), 2, 0.0, **options)
        except TypeError as error:
            raise PartError(
                f"{name} cannot be called with (input_shape, classes, dropout, *, option=…): "
                f"{error}."
            ) from None
    return make
