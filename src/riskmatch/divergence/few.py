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
_NODES_PER_WIDTH = 4.5
_MOST_NODES = grid.SHARED_CELLS * grid.NODES_PER_CELL


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


def order_of(samples: Tensor) -> int:
    """Order of the interpolation in :func:`kernel_forms`: an error of 1e-7, or 1e-11 in float64."""
    return 23 if samples.dtype == torch.float64 else 13


def kernel_forms(
    x: Array, groups: Array, rows: Array, kernel: RBFMixture, order: int
) -> Known | None:
    """Mean of the forms of :func:`riskmatch.divergence.grid.evaluate`, and its gradient.

    A sample is spread to the ``order`` nodes around it, an odd number. Shapes: ``x`` (n,) float64,
    ``groups`` (n,), ``rows`` (r, m) → (), (n,). None where the samples span more nodes than all
    bandwidths share.
    """
    node, widths, lagrange, steps = _plan(kernel, order)
    place = (x - x.min()) / node
    span = float(place.max())
    if not span <= _MOST_NODES:
        return None
    nodes, nearest = int(span) + 1 + order, np.rint(place)
    powers = np.empty((order, len(x)))
    powers[0] = 1
    powers[1:] = place - nearest
    np.multiply.accumulate(powers, out=powers)
    weights = lagrange @ powers
    index = nearest.astype(np.int64) + steps
    # First by group, then weighed: equal risks must cancel to the last digit.
    spread = np.bincount(
        (index + groups * nodes).ravel(), weights[:order].ravel(), rows.shape[1] * nodes
    )
    on_nodes = rows.dot(spread.reshape(-1, nodes))
    size = grid.fft_size(2 * nodes - 1)
    transform = np.fft.rfft(on_nodes, size)
    parts = transform.view(np.float64)
    parts *= _spectrum(widths, size)
    potential = np.fft.irfft(transform, size)
    factor = kernel.weight / len(rows)
    value = factor * float(np.vdot(on_nodes, potential[:, :nodes]))
    slopes = (potential.take(index, 1) * weights[order:]).sum(1)
    slopes *= rows.take(groups, 1)
    return Known(max(value, 0.0), (2 / node * factor) * slopes.sum(0))  # rounding may leave −1e-18


class FewSamples(NamedTuple):
    """Few samples by group."""

    values: Array
    """(n,) float64."""
    groups: GroupArrays
    order: int
    """Order of the interpolation, see :func:`kernel_forms`."""


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
        """(n,) the weight of each sample in the pool: see :meth:`.DomainIndex.weights`."""
        return self._both_weights(pool)[1]

    def contrasts(self, pool: str, group: int | None) -> Array:
        """(k, m) as of :meth:`.DomainIndex.contrasts`, of one group or of all."""
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
    if not (samples.requires_grad and torch.is_grad_enabled()):
        return as_tensor(known.value, samples)
    result = _product(samples, as_tensor(known.gradient, samples))
    result.detach().numpy()[...] = known.value
    return result


def with_gradient(samples: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """The scalar ``value`` with a known ``gradient`` (n,) by ``samples`` (n,), all of one dtype."""
    result = _product(samples, gradient)
    result.detach().copy_(value)
    return result


def _product(samples: Tensor, gradient: Tensor) -> Tensor:
    """A scalar whose derivative by ``samples`` is ``gradient``; the caller replaces its value.

    A second derivative raises. An autograd function in Python would take several times longer.
    """
    product = torch.dot(samples, gradient)
    node = product.grad_fn
    assert node is not None
    node.register_prehook(partial(_once, samples))
    return product


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
def _plan(kernel: RBFMixture, order: int) -> tuple[float, tuple[float, ...], Array, Array]:
    """Distance of the nodes, widths of the kernels in nodes, :func:`_lagrange`, 0 … order − 1."""
    node = math.sqrt(min(kernel.bandwidths)) / _NODES_PER_WIDTH
    widths = tuple(math.sqrt(sigma) / node for sigma in kernel.bandwidths)
    return node, widths, _lagrange(order), np.arange(order)[:, None]


def _lagrange(order: int) -> Array:
    """(2 · node, power) coefficients of the polynomials, then of their derivatives.

    The variable is the distance from the nearest node, in nodes.
    """
    spread, differentiate = grid.lagrange(order, _CPU)  # (power, 1, node), distances in half cells
    scale = (2 / grid.NODES_PER_CELL) ** np.arange(order)
    slopes = np.zeros((order, order))
    slopes[:, :-1] = differentiate[1:, 0].numpy().T * scale[:-1]
    return np.concatenate([spread[:, 0].numpy().T * scale, slopes])


@lru_cache(maxsize=16)
def _spectrum(widths: tuple[float, ...], size: int) -> Array:
    """As of :func:`riskmatch.divergence.grid.kernel_spectrum`, for real and imaginary parts."""
    return np.repeat(grid.kernel_spectrum(widths, size, _CPU).numpy(), 2)
