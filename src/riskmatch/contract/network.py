"""What the engine and the methods need of a network: its outputs and its parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from riskmatch.data.domain import NamedTensors
from riskmatch.device import device_of, fork_random
from riskmatch.registry import PartError

_MISFIT = re.compile(
    "cannot be multiplied|must have the same dtype|must match the size|expected input"
    "|index out of range|not in the valid range"
)
"""Errors of torch where a layer has another width or type than its inputs, or fewer embeddings."""


class MissingFeaturesError(ValueError):
    """A method needs features, and the network returns logits alone."""

    def __init__(self) -> None:
        super().__init__(
            "needs features, and the network returns logits alone: return (features, logits), "
            "features being the inputs of the last layer."
        )


def outputs(model: Callable[..., Any], x: Tensor | NamedTensors) -> tuple[Tensor | None, Tensor]:
    """Features, or None where the network returns none, and logits of the inputs ``x``.

    Named tensors are passed as keyword arguments. A network may return ``(features, logits)``, the
    logits alone, a mapping with ``logits`` and perhaps ``features``, or an object with the
    attribute ``logits``, as those of Hugging Face do.

    Example:
        >>> outputs(nn.Linear(2, 3), torch.zeros(5, 2))[1].shape
        torch.Size([5, 3])
    """
    try:
        out = model(**x.tensors) if isinstance(x, NamedTensors) else model(x)
    except (IndexError, RuntimeError) as error:
        if not _MISFIT.search(str(error)):
            raise
        raise PartError(
            f"The network does not take inputs {_described(x)}: {error}. Give inputs of the width, "
            "type and indices that its layers have, or change the layers."
        ) from error
    if isinstance(out, Mapping) and "logits" in out:
        out = (out["features"], out["logits"]) if "features" in out else out["logits"]
    out = getattr(out, "logits", out)
    if isinstance(out, Tensor):
        return None, out
    if isinstance(out, (tuple, list)) and len(out) == 2:  # torch 2.4 exports no tuple | list
        features, logits = out
        if isinstance(features, Tensor) and isinstance(logits, Tensor):
            return features, logits
    raise PartError(
        "A network must return logits or a pair of tensors (features, logits), or a mapping with "
        "these names, got "
        f"{type(out).__name__}."
    )


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode; restore the mode of every layer and the random streams at the end."""
    modes = {layer: layer.training for layer in model.modules()}
    with fork_random(device_of(model)):
        model.eval()
        try:
            yield
        finally:
            for layer, mode in modes.items():
                layer.training = mode


def classifier_of(model: nn.Module, x: Tensor | NamedTensors) -> nn.Module:
    """The part of a network that maps its features to its logits.

    It is the attribute ``classifier``, or the last submodule that does so for the inputs ``x``.

    Raises:
        PartError: there is no such part.
        MissingFeaturesError: the network returns logits alone.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.top = nn.Linear(2, 4), nn.Linear(4, 3)
        ...     def forward(self, x):
        ...         features = self.body(x).relu()
        ...         return features, self.top(features)
        >>> classifier_of(Net(), torch.randn(5, 2))
        Linear(in_features=4, out_features=3, bias=True)
    """
    if model not in _classifiers:
        _classifiers[model] = _find_classifier(model, x[:2])
    return _classifiers[model]


def featurizer_of(model: nn.Module, classifier: nn.Module) -> nn.Module:
    """The attribute ``featurizer`` of a network, or the list of all its other layers."""
    featurizer = getattr(model, "featurizer", None)
    if isinstance(featurizer, nn.Module):
        return featurizer
    return nn.ModuleList(_outside(model, classifier))


_classifiers: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


def _find_classifier(model: nn.Module, x: Tensor | NamedTensors) -> nn.Module:
    calls: list[tuple[nn.Module, Any, Any]] = []
    layers = [layer for layer in model.modules() if layer is not model]
    hooks = [layer.register_forward_hook(lambda *call: calls.append(call)) for layer in layers]
    try:
        with evaluation_mode(model), torch.no_grad():
            features, logits = outputs(model, x)
            if features is None:
                raise MissingFeaturesError
            if isinstance(named := getattr(model, "classifier", None), nn.Module):
                calls.append((named, (features,), named(features)))
    finally:
        for hook in hooks:
            hook.remove()
    layer: nn.Module
    for layer, inputs, output in reversed(calls):
        if len(inputs) == 1 and _same(inputs[0], features) and _same(output, logits):
            return layer
    raise PartError(
        f"No layer of the network {type(model).__name__} maps the features that it returns to its "
        "logits. Return as features the inputs of the last layer, and name that layer classifier."
    )


def _same(value: object, expected: Tensor) -> bool:
    same = isinstance(value, Tensor) and value.shape == expected.shape
    return same and torch.allclose(value.to(expected), expected)  # type: ignore[attr-defined]


def _outside(model: nn.Module, classifier: nn.Module) -> Iterator[nn.Module]:
    """The layers and weights of a network outside of its classifier."""
    if own := list(model.parameters(recurse=False)):
        yield nn.ParameterList(own)
    for child in model.children():
        if classifier not in child.modules():
            yield child
        elif child is not classifier:
            yield from _outside(child, classifier)


def _described(x: Tensor | NamedTensors) -> str:
    """Shape and type of inputs.

    Example:
        >>> _described(torch.zeros(5, 2))
        '(5, 2) of float32'
    """
    parts = x.tensors if isinstance(x, NamedTensors) else {"": x}
    shown = {
        name: f"{tuple(part.shape)} of {str(part.dtype).removeprefix('torch.')}"
        for name, part in parts.items()
    }
    return ", ".join(f"{name} {text}".strip() for name, text in shown.items())
