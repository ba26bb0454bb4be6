"""Networks: x → (features, logits)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from riskmatch import registry
from riskmatch.models.backbone import Backbone, Head, backbone
from riskmatch.models.cnn import CNN
from riskmatch.models.mlp import MLP
from riskmatch.models.table_mlp import TableMLP
from riskmatch.models.trunk import TIMM, Trunk, is_backbone, seeded_trunk, trunk, trunk_options
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
    "trunk_options",
    "with_cardinalities",
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
    """Build a multi-layer perceptron.

    Args:
        shape: shape of one input.
        classes: number of logits.
        dropout: share of activations dropped after each hidden layer.
        widths: widths of the hidden layers.
        init: ``"default"`` (torch's) or ``"xavier"``: Glorot's uniform weights and zero biases.
        single_logit: for two classes, one output z instead of two; the logits are (0, z).
    """
    return MLP(math.prod(shape), classes, widths, dropout, init, single_logit)


def _cnn(
    shape: Shape, classes: int, dropout: float, *, widths: Sequence[int] = (64, 128, 128, 128)
) -> nn.Module:
    """Build a small convolutional network.

    Args:
        shape: shape of one input, (channels, h, w).
        classes: number of logits.
        dropout: share of features dropped in training.
        widths: channels of each layer, multiples of eight.
    """
    if len(shape) != 3:
        raise ValueError(f"The network 'cnn' needs images (channels, h, w), got inputs {shape}.")
    return CNN(shape[0], classes, widths, dropout)


def _linear(shape: Shape, classes: int, dropout: float) -> nn.Module:
    """Build a linear classifier.

    Args:
        shape: shape of one input, (features,) or (views, features).
        classes: number of logits.
        dropout: share of features dropped in training.
    """
    if len(shape) not in (1, 2):
        raise ValueError(f"The network 'linear' needs features (d,), got inputs {shape}.")
    return Head(shape[-1], classes, dropout)


def _table(
    shape: Shape,
    classes: int,
    dropout: float,
    *,
    cardinalities: Sequence[int] = (),
    widths: Sequence[int] = (256, 128),
) -> nn.Module:
    """Build a perceptron for tables: embeddings of categories beside numbers.

    Args:
        shape: shape of one input, (numbers and codes of categories,).
        classes: number of logits.
        dropout: share of activations dropped after each hidden layer.
        cardinalities: number of codes of each category; set from the table.
        widths: widths of the hidden layers.
    """
    if len(shape) != 1:
        raise ValueError(f"The network 'table' needs rows of a table (d,), got inputs {shape}.")
    return TableMLP(shape[0], classes, cardinalities, widths, dropout)


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "linear": _linear,
    "mlp": _mlp,
    "cnn": _cnn,
    "table": _table,
    "lite0": partial(backbone, "lite0"),
}
"""Built-in networks by name; their options are keyword arguments. ``timm:NAME`` is one too."""


def build(
    name: str,
    input_shape: Shape,
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
    # The annotations of a class are those of its attributes; options are those of __init__.
    check_options(name, options, make.__init__ if inspect.isclass(make) else make)
    if not part.built_in:
        try:
            inspect.signature(make).bind((1,), 2, 0.0, **options)
        except TypeError as error:
            raise PartError(
                f"{name} cannot be called with (input_shape, classes, dropout, *, option=…): "
                f"{error}."
            ) from None
    return make
