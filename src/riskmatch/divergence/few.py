"""Kernel forms and variances of few samples, with their gradients, in NumPy.

On a thousand samples the cost of torch is that of calling its operations, not of computing them;
calls of NumPy cost a fraction. The formulas of the kernel forms and their names are those of
:mod:`riskmatch.divergence.grid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.divergence import grid
from riskmatch.divergence.checks import is_traced
from riskmatch.divergence.kernels import RBFMixture

Array = NDArray[Any]

_MOST = 1 << 10  # samples up to which NumPy is faster
_CPU = torch.device("cpu")
_STEP = grid.NODES_PER_CELL


def is_few(samples: Tensor) -> bool:
    """Whether NumPy can and should take these samples."""
    return samples.numel() <= _MOST and samples.device == _CPU and not is_traced(samples)


def kernel_forms(
    x: Array, groups: Array, rows: Array, kernel: RBFMixture, order: int
) -> tuple[float, Array] | None:
    """Mean of the forms of :func:`riskmatch.divergence.grid.evaluate`, and its gradient.

    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``rows`` (r, m) → (), (n,). None where the samples
    span more cells than all bandwidths share.
    """
    node, widths = _line(kernel)
    place = (x - x.min()) / (node * _STEP)
    span = float(place.max())
    if not span <= grid.SHARED_CELLS:
        return None
    cells = int(span) + 2
    nearest = np.rint(place)
    cell = nearest.astype(np.int64)
    powers = _powers(2 * (place - nearest), order)
    spread, differentiate = _lagrange(order)
    count, overlap = rows.shape[1], order // _STEP
    # First by group, then weighed: equal risks must cancel to the last digit.
    length = cells + 2 * overlap - 2  # cells, and empty ones on both sides
    index = groups * (order * length) + (cell + (overlap - 1))
    index = index + np.arange(0, order * length, length)[:, None]
    moments = np.bincount(index.ravel(), powers.ravel(), count * order * length)
    weighed = (rows @ moments.reshape(count, -1)).reshape(-1, order, length)
    width = cells + overlap - 1
    shifted = [weighed[:, :, shift : shift + width] for shift in range(overlap)]
    on_nodes = (spread @ np.concatenate(shifted, 1)).transpose(0, 2, 1).reshape(len(rows), -1)
    nodes = on_nodes.shape[1]
    size = grid.fft_size(2 * nodes - 1)
    transform = np.fft.rfft(on_nodes, size)
    transform.view(np.float64)[...] *= _spectrum(widths, size)
    potential = np.fft.irfft(transform, size)[:, :nodes]
    factor = kernel.weight / len(rows)
    value = factor * float((on_nodes * potential).sum())
    windows = potential.take(_STEP * cell + np.arange(order)[:, None], 1)  # (r, node, n)
    slopes = ((differentiate @ windows) * powers[:-1]).sum(1)
    slopes *= (2 / node * factor) * rows.take(groups, 1)
    return max(value, 0.0), slopes.sum(0)  # rounding may leave −1e-18


def _powers(offset: Array, order: int) -> Array:
    """(order, n) offset⁰, offset¹, …; each product doubles how many are known."""
    powers = np.empty((order, len(offset)))
    powers[0], powers[1] = 1, offset
    last = 1
    while last < order - 1:
        more = min(last, order - 1 - last)
        following = powers[last + 1 : last + more + 1]
        np.multiply(powers[1 : more + 1], powers[last], out=following)
        last += more
    return powers


def variance(
    x: Array, groups: Array, sizes: Array, weights: Array, which: Array
) -> tuple[float, Array]:
    """Value and gradient of :func:`riskmatch.divergence.divergence.risk_variance`.

    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``sizes`` and ``weights`` (m,), ``which`` (k,) →
    (), (n,).
    """
    of_sample = weights[groups]
    apart = x - of_sample @ x
    slopes = apart * (of_sample / (1 - of_sample @ of_sample))
    value = slopes @ apart
    shares = np.zeros(len(sizes))
    shares[which] = 1 / (len(which) * (sizes[which] - 1))
    within = x - (np.bincount(groups, x, len(sizes)) / sizes)[groups]
    inner = within * shares[groups]
    return float(value + inner @ within), 2 * (slopes + inner)


def as_array(samples: Tensor) -> Array:
    """(n,) float64."""
    return samples.detach().numpy().astype(np.float64)


def as_tensor(
    samples: Tensor,
    value: float,
    gradient: Array,
    formula: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """() ``value`` with the known ``gradient`` (n,) by ``samples`` (n,), in their dtype.

    A second derivative is that of ``formula``, the same value by torch; without it, it raises.
    """
    dtype = np.float64 if samples.dtype == torch.float64 else np.float32
    made = torch.from_numpy(np.asarray(value, dtype))
    if not (samples.requires_grad and torch.is_grad_enabled()):
        return made
    return known(samples, made, torch.from_numpy(gradient.astype(dtype)), formula)


def known(
    samples: Tensor,
    value: Tensor,
    gradient: Tensor,
    formula: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """As :func:`as_tensor`, from tensors of the same dtype."""
    result: Tensor = _Known.apply(samples, value, gradient, formula)  # type: ignore[no-untyped-call]
    return result


ONCE = (
    "riskmatch: the kernel MMD is differentiable once, and a second derivative was asked for "
    "(backward through a gradient taken with create_graph=True). Use divergence='moments', which "
    "supports any order, or take the MMD out of the gradient that is differentiated."
)


class _Known(torch.autograd.Function):
    """A value whose gradient is known."""

    @staticmethod
    def forward(
        ctx: Any,
        samples: Tensor,
        value: Tensor,
        gradient: Tensor,
        formula: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        ctx.save_for_backward(samples, gradient)
        ctx.formula = formula
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        samples, gradient = ctx.saved_tensors
        if not torch.is_grad_enabled():
            product = (outer * gradient).to(samples.dtype)
        elif ctx.formula is None:  # create_graph=True
            product = _final(samples, (outer * gradient).to(samples.dtype))
        else:
            again = ctx.formula(samples)
            (product,) = torch.autograd.grad(again, samples, outer, create_graph=True)
        return product, None, None, None


class _Final(torch.autograd.Function):
    """A gradient that must not be differentiated again."""

    @staticmethod
    def forward(ctx: Any, samples: Tensor, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        raise RuntimeError(ONCE)


_final: Callable[[Tensor, Tensor], Tensor] = _Final.apply


@lru_cache(maxsize=16)
def _line(kernel: RBFMixture) -> tuple[float, tuple[float, ...]]:
    """Distance of the nodes, and the widths of the kernels in nodes."""
    node = math.sqrt(min(kernel.bandwidths)) / grid.NODES_PER_WIDTH
    return node, tuple(math.sqrt(sigma) / node for sigma in kernel.bandwidths)


@lru_cache(maxsize=4)
def _lagrange(order: int) -> tuple[Array, Array]:
    """Coefficients of the polynomials and of their derivatives, as the factors of matrices.

    Shapes: (node of a cell, power in every cell that reaches it), (power − 1, node).
    """
    spread, differentiate = grid.lagrange(order, _CPU)  # (power, 1, node)
    # The nodes of a cell are the last of the polynomials that start two cells before it, …
    parts = spread[:, 0].numpy().reshape(order, -1, _STEP)[:, ::-1]
    factors = parts.transpose(2, 1, 0).reshape(_STEP, -1)
    return np.ascontiguousarray(factors), differentiate[1:, 0].numpy()


@lru_cache(maxsize=16)
def _spectrum(widths: tuple[float, ...], size: int) -> Array:
    """As of :func:`riskmatch.divergence.grid.kernel_spectrum`, for real and imaginary parts."""
    return np.repeat(grid.kernel_spectrum(widths, size, _CPU).numpy(), 2)
