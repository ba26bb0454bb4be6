"""Kernel forms of few samples in NumPy.

On a thousand samples the cost of torch is that of calling its operations, not of computing them;
calls of NumPy cost a fraction. Formulas and names are those of :mod:`riskmatch.divergence.grid`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from riskmatch.divergence import grid
from riskmatch.divergence.kernels import RBFMixture

Array = NDArray[Any]

_CPU = torch.device("cpu")
_NODES_PER_WIDTH = 4.5
_MOST_NODES = grid.SHARED_CELLS * grid.NODES_PER_CELL


class ValueAndGrad(NamedTuple):
    """A function of samples (n,) by its value and its gradient (n,)."""

    value: float
    gradient: Array


def evaluate(
    x: Array, groups: Array, rows: Array, kernel: RBFMixture, dtype: torch.dtype
) -> ValueAndGrad | None:
    """Mean of the forms of :func:`riskmatch.divergence.grid.evaluate`, and its gradient.

    ``dtype``, which the samples had, decides to how many nodes around it a sample is spread.
    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``rows`` (r, m) → (), (n,). None where the samples
    span more nodes than all bandwidths share.
    """
    order = 23 if dtype == torch.float64 else 13  # errors of 1e-11 and 1e-7
    node, widths, lagrange, steps, weight = _plan(kernel, order)
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
    index = (nearest.astype(np.int64) + groups * nodes) + steps  # in the line of the group
    # First by group, then weighed: equal risks must cancel to the last digit.
    spread = np.bincount(index.ravel(), weights[:order].ravel(), rows.shape[1] * nodes)
    on_nodes = rows.dot(spread.reshape(-1, nodes))
    size = grid.fft_size(2 * nodes - 1)
    transform = np.fft.rfft(on_nodes, size)
    parts = transform.view(np.float64)
    parts *= _spectrum(widths, size)
    potential = np.fft.irfft(transform, size)[:, :nodes]
    factor = weight / len(rows)
    value = factor * float(np.vdot(on_nodes, potential))
    slopes = (rows.T.dot(potential).take(index) * weights[order:]).sum(0)
    # Rounding may leave −1e-18.
    return ValueAndGrad(max(value, 0.0), (2 / node * factor) * slopes)


@lru_cache(maxsize=16)
def _plan(kernel: RBFMixture, order: int) -> tuple[float, tuple[float, ...], Array, Array, float]:
    """Distance of the nodes, widths of the kernels in nodes, :func:`_lagrange`, 0 … order − 1."""
    node = math.sqrt(min(kernel.bandwidths)) / _NODES_PER_WIDTH
    widths = tuple(math.sqrt(sigma) / node for sigma in kernel.bandwidths)
    return node, widths, _lagrange(order), np.arange(order)[:, None], kernel.weight


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
    """:func:`riskmatch.divergence.grid.kernel_spectrum`, for real and imaginary parts."""
    return np.repeat(grid.kernel_spectrum(widths, size, _CPU).numpy(), 2)
