"""Kernel forms and variances of few samples, with their gradients, in NumPy.

On a thousand samples the cost of torch is that of calling its operations, not of computing them;
calls of NumPy cost a fraction. The formulas of the kernel forms and their names are those of
:mod:`riskmatch.divergence.grid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

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


class Known(NamedTuple):
    """A function of samples (n,), by its value and its gradient (n,)."""

    value: float
    gradient: Array

    def times(self, factor: float) -> Known:
        """The function times a factor."""
        return self if factor == 1 else Known(factor * self.value, factor * self.gradient)


def is_few(samples: Tensor) -> bool:
    """Whether NumPy can and should take these samples."""
    return samples.numel() <= _MOST and samples.device == _CPU and not is_traced(samples)


def kernel_forms(
    x: Array, groups: Array, rows: Array, kernel: RBFMixture, order: int
) -> Known | None:
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
    powers = np.ones((order, len(x)))
    powers[1:] = 2 * (place - nearest)
    np.multiply.accumulate(powers, out=powers)
    spread, differentiate = _lagrange(order)
    count, overlap = rows.shape[1], order // _STEP
    # First by group, then weighed: equal risks must cancel to the last digit.
    length = cells + 2 * overlap - 2  # cells, and empty ones on both sides
    index = groups * (order * length) + (cell + (overlap - 1))
    steps = _steps(order)
    index = index + length * steps
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
    windows = potential.take(_STEP * cell + steps, 1)  # (r, node, n)
    slopes = ((differentiate @ windows) * powers[:-1]).sum(1)
    slopes *= (2 / node * factor) * rows.take(groups, 1)
    return Known(max(value, 0.0), slopes.sum(0))  # rounding may leave −1e-18


class FewSamples(NamedTuple):
    """Few samples by group."""

    values: Array
    """(n,) float64."""
    groups: GroupArrays
    order: int
    """Order of the interpolation, see :func:`kernel_forms`."""

    @property
    def worst(self) -> int:
        """The group with the largest mean."""
        return int(self.groups.means(self.values).argmax())


class GroupArrays:
    """Groups of few samples as arrays, with what depends on the groups alone.

    Args:
        index: (n,) the group of each sample.
        sizes: (m,) the samples of each group.
    """

    def __init__(self, index: Array, sizes: Array) -> None:
        self.index = index
        self.sizes = sizes
        self.smallest = int(sizes.min())
        self._weights: dict[str, tuple[Array, Array]] = {}
        self._contrasts: dict[tuple[str, int | None], Array] = {}
        self._factors: dict[tuple[str, int | None], tuple[Array, Array]] = {}

    def weights(self, pool: str) -> Array:
        """(n,) the weight of each sample in the pool: see :meth:`.Groups.weights`."""
        return self._both_weights(pool)[1]

    def contrasts(self, pool: str, group: int | None) -> Array:
        """(k, m) as of :meth:`.Groups.contrasts`, of one group or of all."""
        if (pool, group) not in self._contrasts:
            rows = np.diag(1 / self.sizes) - self._both_weights(pool)[0]
            self._contrasts[pool, group] = rows if group is None else rows[group : group + 1]
        return self._contrasts[pool, group]

    def means(self, x: Array) -> Array:
        """(m,) the mean of each group of ``x`` (n,)."""
        return np.bincount(self.index, x, len(self.sizes)) / self.sizes

    def mean_of_means(self, x: Array) -> Known:
        """The mean over the groups of the mean of each."""
        gradient = self.weights("domains")
        return Known(float(gradient @ x), gradient)

    def variance(self, x: Array, pool: str, group: int | None) -> Known:
        """As of :func:`.risk_variance`, of one group or of all."""
        outer, inner = self._variance_factors(pool, group)
        apart = x - self.weights(pool) @ x
        within = x - self.means(x)[self.index]
        outer_slopes, inner_slopes = outer * apart, inner * within
        value = outer_slopes @ apart + inner_slopes @ within
        return Known(float(value), 2 * (outer_slopes + inner_slopes))

    def _variance_factors(self, pool: str, group: int | None) -> tuple[Array, Array]:
        """(n,) each: factors of the squared distances to the mean of the pool and of the group."""
        if (pool, group) not in self._factors:
            weights = self.weights(pool)
            chosen = slice(None) if group is None else slice(group, group + 1)
            shares = np.zeros(len(self.sizes))
            shares[chosen] = 1 / (len(shares[chosen]) * (self.sizes[chosen] - 1))
            outer = weights / (1 - weights @ weights)
            self._factors[pool, group] = outer, shares[self.index]
        return self._factors[pool, group]

    def _both_weights(self, pool: str) -> tuple[Array, Array]:
        """Weights in the pool by group (m,) and by sample (n,)."""
        if pool not in self._weights:
            count = len(self.sizes)
            by_group = 1 / (count * self.sizes)
            if pool == "samples":
                by_group = np.full(count, 1 / self.sizes.sum())
            self._weights[pool] = by_group, by_group[self.index]
        return self._weights[pool]


def as_array(samples: Tensor) -> Array:
    """(n,) float64."""
    return samples.detach().numpy().astype(np.float64)


def as_tensor(values: float | Array, samples: Tensor) -> Tensor:
    """``values`` in the dtype of ``samples``, which have at least 32 bits."""
    dtype = np.float64 if samples.dtype == torch.float64 else np.float32
    return torch.from_numpy(np.asarray(values, dtype))


def differentiable(samples: Tensor, known: Known) -> Tensor:
    """() the value with its gradient by ``samples`` (n,), in their dtype."""
    value = as_tensor(known.value, samples)
    if not (samples.requires_grad and torch.is_grad_enabled()):
        return value
    return with_gradient(samples, value, as_tensor(known.gradient, samples))


def with_gradient(samples: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """The scalar ``value`` with a known ``gradient`` (n,) by ``samples`` (n,), all of one dtype.

    A second derivative raises. This is the product of samples and gradient, whose derivative is
    the gradient, with its value replaced: a function in Python would take several times longer.
    """
    result = torch.dot(samples, gradient)
    result.detach().copy_(value)
    assert result.grad_fn is not None
    result.grad_fn.register_prehook(partial(_once, samples))
    return result


ONCE = (
    "riskmatch: the kernel MMD is differentiable once, and a second derivative was asked for "
    "(backward through a gradient taken with create_graph=True). Use divergence='moments', which "
    "supports any order, or take the MMD out of the gradient that is differentiated."
)


def _once(samples: Tensor, outer: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    """Let a gradient with a graph (create_graph=True) raise where it is differentiated."""
    return (_final(samples, outer[0]),) if torch.is_grad_enabled() else None


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
def _steps(order: int) -> Array:
    """(order, 1) the numbers from 0 to order − 1."""
    return np.arange(order)[:, None]


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
