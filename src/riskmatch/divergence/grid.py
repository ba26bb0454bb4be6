r"""Kernel forms in linear time: risks are scalars, so their kernel sums live on a line.

The weights of the samples are spread onto a uniform grid with local Lagrange interpolation P of
high order, the grid is multiplied by the Toeplitz matrix T of the kernel with one zero-padded FFT,
and the slope of the resulting potential is interpolated back:

.. math:: q^\top K q \approx (Pq)^\top T (Pq), \qquad
          \partial_i\, q^\top K q \approx 2 q_i\, P_i'^\top T (Pq).

Lagrange weights are polynomials of a sample's offset in its cell, so the samples only add the
powers of their offsets to their cell, and the polynomials act once per cell, not once per sample.

The grid has ``NODES_PER_WIDTH`` nodes per standard deviation of the narrowest kernel. Where the
samples span too many nodes for that (an outlier, far clusters, a heavy tail), each bandwidth gets a
grid of its own, in which every gap that its kernel cannot bridge is shortened to the kernel's reach
and samples with no neighbour in reach are left out: their only partner is themselves. So the cost
depends on how many samples there are, never on how far apart they lie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv_transpose1d

from riskmatch.divergence.kernels import RBFMixture

NODES_PER_WIDTH = 5
NODES_PER_CELL = 4
_REACH = 8.7  # in standard deviations: beyond it a Gaussian is below the last bit of float64
_CHUNK = 1 << 13  # samples handled at once, so that temporaries stay in cache
_FEW = 1 << 10  # samples up to which one large operation is cheaper than one per power
SHARED_CELLS = 1 << 14  # the longest grid that all bandwidths share
_KEPT = 1 << 18  # the longest spectrum worth keeping for the next call


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

    The weights of every row must sum to zero over the samples, see :func:`evaluate_unbalanced`.
    Shapes: ``x`` (n,), ``groups`` (n,), ``rows`` (r, m), ``coefs`` (r,) → (), (n,). All but ``x``
    is float64; the gradient is float64 or has the dtype of ``x``.
    ``order`` is the number of nodes that each sample is spread to, a multiple of
    ``NODES_PER_CELL``.
    """
    forms = _Forms(rows, coefs, with_grad, order)
    low, high = (bound.double() for bound in torch.aminmax(x))
    node = math.sqrt(min(kernel.bandwidths)) / NODES_PER_WIDTH
    cells = float(high - low) / (node * NODES_PER_CELL)
    if cells <= SHARED_CELLS:
        widths = tuple(math.sqrt(sigma) / node for sigma in kernel.bandwidths)
        values, grad = forms.on_line(x, groups, low, node, int(cells) + 2, widths)
    else:
        values, grad = _each_bandwidth(x.double(), groups, kernel, forms)
    return kernel.weight * (coefs @ values), grad.mul_(kernel.weight)


def evaluate_unbalanced(
    x: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor,
    kernel: RBFMixture,
    with_grad: bool,
    order: int,
) -> tuple[Tensor, Tensor]:
    """As :func:`evaluate`, for rows whose weights need not sum to zero over the samples.

    A counterweight in the middle of the samples makes every sum zero; its own share, which is
    linear in the weights, is added exactly. Taking k(0) from the grid's sum instead would leave
    no digits where the samples lie close together.
    """
    x = x.double()
    centre = x.median()
    totals = rows @ groups.bincount(minlength=rows.shape[1]).to(x)  # (r,)
    value, grad = evaluate(
        torch.cat([x, centre[None]]),
        torch.cat([groups, groups.new_full((1,), rows.shape[1])]),
        torch.cat([rows, -totals[:, None]], dim=1),
        coefs,
        kernel,
        with_grad,
        order,
    )
    share = (2 * kernel.weight * coefs * totals) @ rows[:, groups]  # (n,)
    distance = x - centre
    gammas = x.new_tensor(kernel.gammas)[:, None]
    lowered = torch.expm1(-gammas * distance.square())  # (B, n): k(d) − k(0)
    value = value + share @ lowered.sum(0)
    if with_grad:
        grad = grad[:-1] - 2 * share * distance * (gammas * (lowered + 1)).sum(0)
    return value, grad


def _each_bandwidth(
    x: Tensor, groups: Tensor, kernel: RBFMixture, forms: _Forms
) -> tuple[Tensor, Tensor]:
    """Values (r,) and gradient (n,), with one shortened line per bandwidth."""
    values, grad = torch.zeros_like(forms.coefs), x.new_zeros(len(x) if forms.with_grad else 0)
    ranked, rank = x.sort()
    groups = groups[rank]
    gaps = ranked.diff()
    edge = gaps.new_zeros(1, dtype=torch.bool)
    for sigma in kernel.bandwidths:
        width = math.sqrt(sigma)
        node, reach = width / NODES_PER_WIDTH, width * _REACH
        linked = gaps < reach
        near = torch.cat([edge, linked]) | torch.cat([linked, edge])
        lonely = groups[~near].bincount(minlength=forms.rows.shape[1]).to(x)
        values += forms.rows.square() @ lonely
        if not bool(near.any()):
            continue
        place = ranked[near].diff(prepend=ranked[near][:1]).clamp(max=reach).cumsum(0)
        cells = int(float(place[-1]) / (node * NODES_PER_CELL)) + 2
        part, slopes = forms.on_line(
            place, groups[near], place[0], node, cells, (float(NODES_PER_WIDTH),)
        )
        values += part
        if forms.with_grad:
            grad[rank[near]] += slopes
    return values, grad


@dataclass(frozen=True)
class _Forms:
    """The forms Σ_r coefs_r · q_rᵀ K q_r with q_r = rows_r[group], and how finely to take them."""

    rows: Tensor
    coefs: Tensor
    with_grad: bool
    order: int

    def on_line(
        self,
        place: Tensor,
        groups: Tensor,
        low: Tensor,
        node: float,
        cells: int,
        widths: tuple[float, ...],
    ) -> tuple[Tensor, Tensor]:
        """Values (r,) and gradient (n,) at ``place`` (n,), on nodes ``node`` apart from ``low`` on.

        The ``widths`` of the kernels are in nodes. The gradient has the dtype of ``place``.
        """
        order, count = self.order, self.rows.shape[1]
        spread, differentiate = lagrange(order, place.device)
        pieces = [(place, groups)]
        if place.shape[0] > _CHUNK:
            pieces = list(zip(place.split(_CHUNK), groups.split(_CHUNK), strict=True))
        located = (_locate(*piece, low, node, cells, order) for piece in pieces)
        kept = list(located) if len(pieces) == 1 else None
        moments = self.rows.new_zeros(count * order * cells)
        for index, offset in kept or located:
            _add_powers(moments, index, offset, order, cells)
        weighed = (self.rows @ moments.view(count, -1)).view(-1, order, cells)
        q = conv_transpose1d(weighed, spread, stride=NODES_PER_CELL)[:, 0]  # (r, nodes)
        nodes = q.shape[1]
        size = fft_size(2 * nodes - 1)
        spectrum = (kernel_spectrum if size <= _KEPT else kernel_spectrum.__wrapped__)(
            widths, size, place.device
        )
        potential = torch.fft.irfft(torch.fft.rfft(q, size) * spectrum, size)[:, :nodes]
        values = (q * potential).sum(1)
        if not self.with_grad:
            return values, place.new_empty(0)
        bent = conv1d(potential[:, None], differentiate, stride=NODES_PER_CELL)
        tangents = ((2 / node * self.coefs * self.rows.T) @ bent.flatten(1)).flatten()
        located = (_locate(*piece, low, node, cells, order) for piece in pieces)
        slopes = torch.empty_like(place)
        for target, piece in zip(slopes.split(_CHUNK), kept or located, strict=True):
            target.copy_(_slope(tangents, *piece, order, cells))
        return values, slopes


def _locate(
    place: Tensor, groups: Tensor, low: Tensor, node: float, cells: int, order: int
) -> tuple[Tensor, Tensor]:
    """Each sample's place in the first row of its group's table, and its offset in [−1, 1].

    A group's table has ``order`` rows of ``cells``. For few samples the places in all rows and the
    powers of the offset come at once, (order, n): one large operation is then cheaper than many.
    """
    place = (place.double() - low).div_(node * NODES_PER_CELL)
    cell = place.round()  # the lowest sample in the middle: what lies close to it keeps all digits
    offset = place.sub_(cell).mul_(2)
    index = cell.long().add_(groups, alpha=order * cells)
    if index.numel() > _FEW:
        return index, offset
    powers = offset.repeat(order, 1)
    powers[0] = 1
    starts = torch.arange(0, order * cells, cells, device=index.device)
    return index + starts[:, None], powers.cumprod(0)


def _add_powers(moments: Tensor, index: Tensor, offset: Tensor, order: int, cells: int) -> None:
    """Add offset⁰, offset¹, … to the rows of the samples' tables in ``moments``."""
    if index.dim() == 2:
        moments.scatter_add_(0, index.flatten(), offset.flatten())
        return
    power = torch.ones_like(offset)
    for start in range(0, order * cells, cells):
        moments[start:].scatter_add_(0, index, power)
        power.mul_(offset)


def _slope(tangents: Tensor, index: Tensor, offset: Tensor, order: int, cells: int) -> Tensor:
    """(n,) the polynomial Σ_k tangents[k] · offset^(k−1) of each sample; row 0 is not read."""
    if index.dim() == 2:
        return (tangents.take(index[1:]) * offset[:-1]).sum(0)
    slope = torch.zeros_like(offset)
    for start in range((order - 1) * cells, 0, -cells):
        slope = torch.addcmul(tangents[start:].index_select(0, index), slope, offset)
    return slope


@lru_cache(maxsize=16)
def lagrange(order: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Lagrange polynomials on ``order`` unit-spaced nodes around a cell's middle.

    The variable is the offset in the cell, from −1 to 1. Returns their coefficients as the weights
    of a convolution, (power, 1, node), and with each power's factor under the derivative by place.
    """
    half = Fraction(NODES_PER_CELL, 2)
    nodes = [Fraction(2 * node + 1 - order, 2) / half for node in range(order)]
    table = []
    for here in nodes:
        polynomial = [Fraction(1)]
        for other in nodes:
            if other != here:
                raised = [Fraction(0), *polynomial]
                scaled = [other * value for value in polynomial] + [Fraction(0)]
                polynomial = [
                    (up - down) / (here - other) for up, down in zip(raised, scaled, strict=True)
                ]
        table.append([float(value) for value in polynomial])
    spread = torch.tensor(table, dtype=torch.float64, device=device).T[:, None]
    exponents = torch.arange(order, dtype=torch.float64, device=device)[:, None, None]
    return spread.contiguous(), (spread * exponents / float(half)).contiguous()


@lru_cache(maxsize=64)
def fft_size(least: int) -> int:
    """The smallest number of the form 2^a, 3·2^a, 5·2^a or 25·2^a that is not below ``least``."""
    power = 1 << (least - 1).bit_length()
    shorter = [power * parts // 32 for parts in (20, 24, 25) if power >= 32]
    return next((size for size in shorter if size >= least), power)


@lru_cache(maxsize=16)
def kernel_spectrum(widths: tuple[float, ...], size: int, device: torch.device) -> Tensor:
    """Eigenvalues of the circulant of Σ exp(−l²/(2w²)), lags l on a circle of ``size`` nodes."""
    lag = torch.arange(size, dtype=torch.float64, device=device)
    lag = torch.minimum(lag, size - lag)
    column = torch.stack([torch.exp(-0.5 * (lag / width).square()) for width in widths]).sum(0)
    spectrum: Tensor = torch.fft.rfft(column).real
    return spectrum
