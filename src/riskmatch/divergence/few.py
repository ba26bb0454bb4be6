"""Kernel forms of few samples, in NumPy.

On a thousand samples the cost of torch is that of calling its operations, not of computing them;
calls of NumPy cost a fraction. The formulas and their names are those of
:mod:`riskmatch.divergence.grid`.
"""

from __future__ import annotations

import math
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


def evaluate(
    x: Array, groups: Array, rows: Array, coefs: Array, kernel: RBFMixture, order: int
) -> tuple[float, Array] | None:
    """Value and gradient as of :func:`riskmatch.divergence.grid.evaluate`, in float64.

    None where the samples span more cells than all bandwidths share.
    """
    node, widths = _line(kernel)
    place = (x - x.min()) / (node * _STEP)
    span = float(place.max())
    if not span <= grid.SHARED_CELLS:
        return None
    cells = int(span) + 2
    nearest = np.rint(place)
    cell = nearest.astype(np.int64)
    powers = np.empty((order, len(x)))
    powers[0], powers[1:] = 1, 2 * (place - nearest)
    np.multiply.accumulate(powers, out=powers)
    spread, differentiate = _lagrange(order)
    count = rows.shape[1]
    # First by group, then weighed: equal risks must cancel to the last digit.
    index = (groups * (order * cells) + cell) + np.arange(0, order * cells, cells)[:, None]
    moments = np.bincount(index.ravel(), powers.ravel(), count * order * cells)
    weighed = (rows @ moments.reshape(count, -1)).reshape(-1, order, cells)
    blocks = weighed.transpose(0, 2, 1) @ spread  # (r, cells, nodes of a sample)
    overlap = order // _STEP
    added = np.zeros((len(rows), cells + overlap - 1, _STEP))
    for shift in range(overlap):
        added[:, shift : shift + cells] += blocks[:, :, shift * _STEP : (shift + 1) * _STEP]
    on_nodes = added.reshape(len(rows), -1)
    nodes = on_nodes.shape[1]
    size = grid.fft_size(2 * nodes - 1)
    potential = np.fft.irfft(np.fft.rfft(on_nodes, size) * _spectrum(widths, size), size)
    value = kernel.weight * float(coefs @ (on_nodes * potential[:, :nodes]).sum(1))
    windows = potential[:, _STEP * cell[:, None] + np.arange(order)]  # (r, n, node)
    slopes = ((windows @ differentiate)[:, :, 1:] * powers[:-1].T).sum(2)
    slopes *= (2 * kernel.weight / node) * coefs[:, None] * rows[:, groups]
    return max(value, 0.0), slopes.sum(0)  # rounding may leave −1e-18


@lru_cache(maxsize=16)
def _line(kernel: RBFMixture) -> tuple[float, tuple[float, ...]]:
    """Distance of the nodes, and the widths of the kernels in nodes."""
    node = math.sqrt(min(kernel.bandwidths)) / grid.NODES_PER_WIDTH
    return node, tuple(math.sqrt(sigma) / node for sigma in kernel.bandwidths)


@lru_cache(maxsize=4)
def _lagrange(order: int) -> tuple[Array, Array]:
    """Coefficients (power, node) of the polynomials, and (node, power) of their derivatives."""
    spread, differentiate = grid.lagrange(order, _CPU)
    return spread[:, 0].numpy(), np.ascontiguousarray(differentiate[:, 0].numpy().T)


@lru_cache(maxsize=16)
def _spectrum(widths: tuple[float, ...], size: int) -> Array:
    spectrum: Array = grid.kernel_spectrum(widths, size, _CPU).numpy()
    return spectrum
