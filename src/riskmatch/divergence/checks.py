"""Refusals that name the cause and the cure, shared by everything that takes samples."""

from __future__ import annotations

import torch
from torch import Tensor

from riskmatch.validation import check_option as check_option

_SMALL = 1 << 10  # samples up to which NumPy is faster
_CPU = torch.device("cpu")


class NonFiniteError(ValueError):
    """Samples that should be numbers are NaN or infinite."""


def check_scalars(name: str, values: Tensor) -> None:
    """Raise unless ``values`` is a non-empty one-dimensional floating-point tensor."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}.")
    if not values.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {values.dtype}; use {name}.float().")
    if values.dim() != 1:
        column = values.dim() == 2 and values.shape[1] == 1
        cure = f"use {name}.squeeze(1)" if column else "compute the loss with reduction='none'"
        raise ValueError(
            f"{name} must have one dimension, one scalar per sample, got shape "
            f"{tuple(values.shape)}; {cure}."
        )
    if values.numel() == 0:
        raise ValueError(f"{name} is empty; a distribution needs at least one sample.")


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision samples in float32; others as they are."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def is_traced(values: Tensor) -> bool:
    """Whether there are no numbers to branch on, as in ``torch.compile`` and ``torch.func``."""
    return torch.compiler.is_compiling() or bool(
        torch._C._functorch.is_functorch_wrapped_tensor(values)
    )


def stays_on_device(values: Tensor) -> bool:
    """Whether a number of the values would have to be waited for, or there is none."""
    return is_traced(values) or values.device != _CPU


def is_small(values: Tensor) -> bool:
    """Whether NumPy, whose calls cost less than those of torch, is faster on untraced values."""
    return values.numel() <= _SMALL and values.device == _CPU


def check_finite(name: str, values: Tensor) -> None:
    """Raise :class:`NonFiniteError` with the count of NaN and infinite values, if there are any."""
    if is_traced(values) or bool(torch.isfinite(values.detach()).all()):
        return
    raise NonFiniteError(f"{name} has {describe_nonfinite(values)} among {values.numel()} values.")


def describe_nonfinite(values: Tensor) -> str:
    """For example ``'2 NaN and 1 infinite'``."""
    counts = {"NaN": int(values.isnan().sum()), "infinite": int(values.isinf().sum())}
    return " and ".join(f"{count} {fault}" for fault, count in counts.items() if count)
