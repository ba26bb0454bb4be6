r"""Kernel forms in linear time: risks are scalars, so their kernel sums live on a line.

The weights of the samples are spread onto a uniform grid with local Lagrange interpolation P of
high order, the grid is multiplied by the Toeplitz matrix T of the kernel with one zero-padded FFT,
and the slope of the resulting potential is interpolated back:

.. math:: q^\top K q \approx (Pq)^\top T (Pq), \qquad
          \partial_i\, q^\top K q \approx 2 q_i\, P_i'^\top T (Pq).

The grid has ``_CELLS_PER_WIDTH`` cells per standard deviation of the narrowest kernel. Where the
samples span too many cells for that (an outlier, far clusters, a heavy tail), each bandwidth gets a
grid of its own, in which every gap that its kernel cannot bridge is shortened to the kernel's reach
and samples with no neighbour in reach are left out: their only partner is themselves. So the cost
depends on how many samples there are, never on how far apart they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from riskmatch.divergence.kernels import RBFMixture

_CELLS_PER_WIDTH = 5
_REACH = 8.7  # in standard deviations: beyond it a Gaussian is below the last bit of float64
_CHUNK = 1 << 15  # samples handled at once, so that temporaries stay in cache
_SHARED_CELLS = 1 << 16  # the largest grid that all bandwidths share


def evaluate(
    x: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor,
    kernel: RBFMixture,
    with_grad: bool,
    order: int,
) -> tuple[Tensor, Tensor]:
    """Value and gradient of the forms of :func:`riskmatch.divergence.forms.kernel_forms`.

    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``rows`` (r, m), ``coefs`` (r,) → (), (n,).
    ``order`` is the number of grid points that each sample is spread to.
    """
    forms = _Forms(rows, coefs, with_grad, order)
    low, high = torch.aminmax(x)
    cell = math.sqrt(min(kernel.bandwidths)) / _CELLS_PER_WIDTH
    if float(high - low) <= cell * _SHARED_CELLS:
        values, slopes = forms.on_line((x - low) / cell, groups, _widths(kernel, cell))
        grad = slopes / cell
    else:
        values, grad = _each_bandwidth(x, groups, kernel, forms)
    totals = rows @ groups.bincount(minlength=rows.shape[1]).to(x)
    lowered = values - len(kernel.bandwidths) * totals.square()  # k(d) − k(0) for k(d)
    return kernel.weight * (coefs @ lowered), kernel.weight * grad


def _each_bandwidth(
    x: Tensor, groups: Tensor, kernel: RBFMixture, forms: _Forms
) -> tuple[Tensor, Tensor]:
    """Values (r,) and gradient (n,), with one shortened line per bandwidth."""
    values, grad = torch.zeros_like(forms.coefs), torch.zeros_like(x)
    ranked, rank = x.sort()
    groups = groups[rank]
    gaps = ranked.diff()
    for sigma in kernel.bandwidths:
        width = math.sqrt(sigma)
        cell, reach = width / _CELLS_PER_WIDTH, width * _REACH
        edge = gaps.new_zeros(1, dtype=torch.bool)
        linked = gaps < reach
        near = torch.cat([edge, linked]) | torch.cat([linked, edge])
        lonely = groups[~near].bincount(minlength=forms.rows.shape[1]).to(x)
        values += forms.rows.square() @ lonely
        if lonely.sum() == len(x):
            continue
        place = torch.cat([gaps.new_zeros(1), ranked[near].diff().clamp(max=reach).cumsum(0)])
        part, slopes = forms.on_line(place / cell, groups[near], (float(_CELLS_PER_WIDTH),))
        values += part
        if forms.with_grad:
            grad[rank[near]] += slopes / cell
    return values, grad


@dataclass(frozen=True)
class _Forms:
    """The forms Σ_r coefs_r · q_rᵀ K q_r with q_r = rows_r[group], and how finely to take them."""

    rows: Tensor
    coefs: Tensor
    with_grad: bool
    order: int

    def on_line(
        self, place: Tensor, groups: Tensor, widths: tuple[float, ...]
    ) -> tuple[Tensor, Tensor]:
        """Values (r,) and slopes (n,) at ``place`` (n,) ≥ 0; all lengths are in cells."""
        length = int(place.max()) + self.order
        count = self.rows.shape[1]
        spread, differentiate = _lagrange(self.order, place.device)
        chunks = [slice(start, start + _CHUNK) for start in range(0, max(1, len(place)), _CHUNK)]

        def stencils() -> Iterator[tuple[Tensor, Tensor]]:
            for chunk in chunks:
                yield _stencil(place[chunk], groups[chunk], length, self.order)

        kept = list(stencils()) if len(chunks) == 1 else None
        masses = place.new_zeros(count * length)
        for index, powers in kept or stencils():
            masses.scatter_add_(0, index.flatten(), (spread @ powers).flatten())
        q = self.rows @ masses.view(count, length)  # (r, length)
        size = _fft_size(2 * length - 1)
        spectrum = _spectrum(widths, size, place.device)
        potential = torch.fft.irfft(torch.fft.rfft(q, size) * spectrum, size)[:, :length]
        values = (q * potential).sum(1)
        if not self.with_grad:
            return values, place.new_empty(0)
        pull = ((2 * self.coefs * self.rows.T) @ potential).flatten()  # (m · length,)
        slopes = [
            (pull[index] * (differentiate @ powers[:-1])).sum(0)
            for index, powers in kept or stencils()
        ]
        return values, torch.cat(slopes)


def _stencil(place: Tensor, groups: Tensor, length: int, order: int) -> tuple[Tensor, Tensor]:
    """The grid points of each sample (order, n), and the powers of its offset (order, n)."""
    cell = place.floor()
    offset = place - cell - 0.5
    powers = torch.empty(order, len(place), dtype=place.dtype, device=place.device)
    powers[0] = 1
    for power in range(1, order):
        torch.mul(powers[power - 1], offset, out=powers[power])
    first = cell.long() + groups * length
    return first + torch.arange(order, device=place.device)[:, None], powers


@lru_cache(maxsize=16)
def _lagrange(order: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Coefficients of the Lagrange polynomials on ``order`` unit-spaced nodes around 0.

    Returns ``(node, power)`` for the polynomials and for their derivatives.
    """
    nodes = [Fraction(2 * node + 1 - order, 2) for node in range(order)]
    table = []
    for here in nodes:
        polynomial = [Fraction(1)]
        for other in nodes:
            if other != here:
                shifted = [Fraction(0), *polynomial]
                scaled = [other * value for value in polynomial] + [Fraction(0)]
                polynomial = [
                    (up - down) / (here - other) for up, down in zip(shifted, scaled, strict=True)
                ]
        table.append([float(value) for value in polynomial])
    spread = torch.tensor(table, dtype=torch.float64, device=device)
    exponents = torch.arange(1, order, dtype=torch.float64, device=device)
    return spread, spread[:, 1:] * exponents


def _widths(kernel: RBFMixture, cell: float) -> tuple[float, ...]:
    return tuple(math.sqrt(sigma) / cell for sigma in kernel.bandwidths)


def _fft_size(least: int) -> int:
    """The smallest number of the form 2^a or 3·2^a that is not below ``least``."""
    power = 1 << (least - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= least else power


@lru_cache(maxsize=16)
def _spectrum(widths: tuple[float, ...], size: int, device: torch.device) -> Tensor:
    """Eigenvalues of the circulant of Σ exp(−l²/(2w²)), lags l on a circle of ``size`` cells."""
    lag = torch.arange(size, dtype=torch.float64, device=device)
    lag = torch.minimum(lag, size - lag)
    column = torch.stack([torch.exp(-0.5 * (lag / width).square()) for width in widths]).sum(0)
    spectrum: Tensor = torch.fft.rfft(column).real
    return spectrum
