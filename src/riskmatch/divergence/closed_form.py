"""Divergences with a closed form on the line: two moments, energy distance and Wasserstein."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.divergence.divergence import Divergence


@dataclass(frozen=True)
class Moments(Divergence):
    r"""Squared differences of the mean and of the unbiased variance.

    .. math:: (\bar x - \bar y)^2 + (s_x^2 - s_y^2)^2

    The gradient grows with the cube of the samples, and overflows in float16, whose largest number
    is 65,504, where variances differ by hundreds: compute such losses in float32.

    Example:
        >>> Moments()(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 5.0]))  # (1−3)² + (2−8)²
        tensor(40.)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024,
    supplement.
    """

    min_samples = 2

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked."""
        # Means of values near 100 that differ by 1e-3 would be rounded by as much in float32.
        shift = y.detach().mean()
        x, y = x - shift, y - shift
        if weights is None:
            return (x.mean() - y.mean()).square() + (x.var() - y.var()).square()
        mean = (weights * y).sum()  # autocast would compute a dot product in half precision
        variance = (weights * (y - mean).square()).sum() / (1 - weights.square().sum())
        return (x.mean() - mean).square() + (x.var() - variance).square()


@dataclass(frozen=True)
class Energy(Divergence):
    r"""Energy distance, from the squared area between the distribution functions.

    .. math:: 2\,\mathbb{E}|X-Y| - \mathbb{E}|X-X'| - \mathbb{E}|Y-Y'|
              = 2 \int (F_x(t) - F_y(t))^2 \, dt

    This is the square of what SciPy calls by the same name. It needs no bandwidth.

    Example:
        >>> Energy()(torch.zeros(2), torch.ones(3))
        tensor(2.)

    Reference: Székely and Rizzo, *Energy statistics*, JSPI 2013.
    """

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked."""
        points, order = torch.cat([x, y]).sort()
        # In float64, and summing to 1: a distant outlier multiplies every rounding error.
        below = torch.ones_like(y, dtype=torch.float64) if weights is None else weights.double()
        above = torch.ones_like(x, dtype=torch.float64)
        steps = torch.cat([above / len(x), -below / below.sum()])[order]
        difference = steps.cumsum(0)
        with torch.no_grad():
            exact = 2 * (difference[:-1].square() * points.double().diff()).sum()
            value = exact.to(points.dtype)
            # At a tie the order is arbitrary: its points share the differences before and after it.
            padded = torch.cat([difference.new_zeros(1), difference])
            before = padded[torch.searchsorted(points, points)]
            after = padded[torch.searchsorted(points, points, right=True)]
            slopes = (-2 * steps * (before + after)).to(points.dtype)
        return value + (slopes * (points - points.detach())).sum()


@dataclass(frozen=True)
class Wasserstein(Divergence):
    r"""Wasserstein distance of order p ∈ {1, 2}, to the power p, between quantile functions.

    .. math:: W_p^p = \int_0^1 |F_x^{-1}(u) - F_y^{-1}(u)|^p \, du

    The power is kept because its gradient stays finite where the samples agree.

    Example:
        >>> Wasserstein(order=2)(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
        tensor(4.)

    Reference: Peyré and Cuturi, *Computational Optimal Transport*, 2019, section 2.6.
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"The order of Wasserstein must be 1 or 2, got {self.order!r}.")

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked."""
        x, (y, order) = x.sort().values, y.sort()
        n, k = len(x), len(y)
        # Both quantile functions are constant between consecutive levels of either.
        if weights is None:
            # In units of 1/(nk) levels are whole numbers: none is lost or doubled by rounding.
            ours = torch.arange(1, n + 1, device=x.device) * k
            theirs = torch.arange(1, k + 1, device=x.device) * n
        else:
            ours = torch.arange(1, n + 1, device=x.device, dtype=torch.float64) / n
            theirs = weights[order].double().cumsum(0)
        levels = torch.cat([ours, theirs]).sort().values
        share = levels.diff(prepend=levels.new_zeros(1)).to(x.dtype) / levels[-1]
        place = torch.searchsorted(ours, levels).clamp(max=n - 1)
        moved = x[place] - y[torch.searchsorted(theirs, levels).clamp(max=k - 1)]
        cost: Tensor = moved.abs() if self.order == 1 else moved.square()
        return (share * cost).sum()
