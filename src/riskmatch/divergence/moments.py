"""The first two moments: the cheapest match, and the paper's choice on ColoredMNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Places, Pool


@dataclass(frozen=True)
class Moments(Divergence):
    r"""Squared differences of the mean and of the unbiased variance.

    .. math:: (\bar x - \bar y)^2 + (s_x^2 - s_y^2)^2

    Example:
        >>> import torch
        >>> Moments()(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 5.0]))  # (1−3)² + (2−8)²
        tensor(40.)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024,
    supplement.
    """

    min_samples = 2

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked."""
        if weights is None:
            return (x.mean() - y.mean()).square() + (x.var() - y.var()).square()
        mean = (weights * y).sum()  # autocast would compute a dot product in half precision
        variance = (weights * (y - mean).square()).sum() / (1 - weights.square().sum())
        return (x.mean() - mean).square() + (x.var() - variance).square()


def mean_and_variance(values: Any, groups: DomainIndex, which: Places, pool: Pool) -> list[Any]:
    """The mean of the groups' means and its gradient; a variance and its gradient.

    The variance is that of the pool, Σ w(r − μ)² / (1 − Σ w²) with the samples' weights w, plus
    the mean unbiased variance of the groups ``which``.

    Args:
        values: (n,) a tensor or, for few samples, an array.
        groups: the groups of the samples.
        which: some of the groups.
        pool: what has equal weight in the pool.

    Returns:
        () and (n,) twice.
    """
    weights, outer, inner = groups.factors(values, which, pool)
    # Products and sums: autocast would compute a dot product in half precision.
    mean = (weights * values).sum()
    if isinstance(which, list) and not which:
        return [mean, weights, None, None]
    apart = values - (mean if pool == "domains" else (outer * values).sum() / outer.sum())
    index = groups.index if isinstance(values, Tensor) else groups.index.numpy()
    within = values - groups.means(values)[index]
    outer_slopes, inner_slopes = outer * apart, inner * within
    variance = (outer_slopes * apart + inner_slopes * within).sum()
    return [mean, weights, variance, 2 * (outer_slopes + inner_slopes)]
