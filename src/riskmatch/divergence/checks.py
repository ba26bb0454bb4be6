"""Refusals that name the cause and the cure, shared by everything that takes samples."""

from __future__ import annotations

import torch
from torch import Tensor

from riskmatch.validation import check_option as check_option


class NonFiniteError(ValueError):
    """Samples that should be numbers are NaN or infinite."""


def check_scalars(name: str, values: Tensor) -> None:
    """Raise unless ``values`` is a non-empty one-dimensional floating-point tensor."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}.")
    if not values.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {values.dtype}; use {name}.float().")
    if values.dim() != 1:
        raise ValueError(
            f"{name} must have one dimension, one scalar per sample, got shape "
            f"{tuple(values.shape)}; compute the loss with reduction='none' and flatten it."
        )
    if values.numel() == 0:
        raise ValueError(f"{name} is empty; a distribution needs at least one sample.")


def check_finite(name: str, values: Tensor) -> None:
    """Raise :class:`NonFiniteError` with the count of NaN and infinite values, if there are any."""
    if torch.compiler.is_compiling() or bool(torch.isfinite(values).all()):
        return
    raise NonFiniteError(f"{name} has {describe_nonfinite(values)} among {values.numel()} values.")


def describe_nonfinite(values: Tensor) -> str:
    """For example ``'2 NaN and 1 infinite'``."""
    counts = {"NaN": int(values.isnan().sum()), "infinite": int(values.isinf().sum())}
    return " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
