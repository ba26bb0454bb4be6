"""Intervals, adjusted p-values and two-sample tests; without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def normal_quantile(level: float) -> float:
    """The z with probability ``level`` between −z and z.

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def half_of_t_interval(values: Sequence[float], level: float = 0.95, further: int = 0) -> float:
    r"""Half of the t-interval of the mean, or of the prediction interval of one ``further`` value.

    .. math:: t_{n-1,\,(1+\text{level})/2}\; s\, \sqrt{\text{further} + 1/n}

    with s the standard deviation of the n values, two or more.

    Example:
        >>> round(half_of_t_interval([1.0, 2.0, 3.0]), 2)
        2.48
    """
    from scipy.special import stdtrit  # scipy.stats takes half a second to import

    n = len(values)
    return float(stdtrit(n - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(further + 1 / n)


def share_interval(hits: int, n: int, level: float) -> tuple[float, float]:
    """Wilson's interval of a probability, from ``hits`` in ``n`` independent trials.

    Example:
        >>> [round(end, 4) for end in share_interval(9, 10, 0.95)]
        [0.5958, 0.9821]
    """
    from scipy.stats import binomtest

    interval = binomtest(hits, n).proportion_ci(level, method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap_interval(
    statistic: Callable[[NDArray[np.intp]], float],
    groups: NDArray[Any],
    level: float,
    draws: int = 200,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a statistic of samples, by drawing groups with replacement.

    Args:
        statistic: maps rows, some of them several times, to a number; NaN where it has none.
        groups: (n,) the group of each sample, from 0; with a group each, samples are drawn.
        level: level of the interval.
        draws: number of draws.
        seed: seed of the draws.

    Returns:
        Both ends; NaN where most draws have no statistic, or there is one group.

    Example:
        >>> x = np.arange(100.0)
        >>> low, high = bootstrap_interval(lambda rows: x[rows].mean(), np.arange(100), 0.95)
        >>> 40 < low < 49.5 < high < 59
        True

    Reference: Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, section 13.
    """
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    if len(members) < 2:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    values = np.empty(draws)
    for k in range(draws):
        chosen = rng.integers(len(members), size=len(members))
        values[k] = statistic(np.concatenate([members[group] for group in chosen]))
    known = values[~np.isnan(values)]
    if 2 * len(known) < draws:
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted for their number by Holm's method.

    Example:
        >>> [round(value, 3) for value in holm([0.04, 0.01, 0.03])]
        [0.06, 0.03, 0.06]

    Reference: Holm, *A Simple Sequentially Rejective Multiple Test Procedure*, 1979.
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    scaled = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(scaled))
    return [float(value) for value in adjusted]


def ks_distance(x: Array, y: Array) -> float:
    """The largest gap between the distribution functions of two samples.

    Example:
        >>> ks_distance(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
        0.5
    """
    from scipy.stats import ks_2samp

    return float(ks_2samp(x, y, method="asymp").statistic)


def superiority(x: Array, y: Array) -> float:
    """P(x > y) + P(x = y) / 2 of two samples.

    Example:
        >>> superiority(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        0.875
    """
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(x, y, method="asymptotic").statistic) / (len(x) * len(y))


def subsample(x: NDArray[Any], limit: int, rng: np.random.Generator) -> NDArray[Any]:
    """At most ``limit`` rows of x, drawn without replacement."""
    return x[rng.permutation(len(x))[:limit]] if len(x) > limit else x


def distances(x: Array) -> Array:
    """Euclidean distances (n, n) of the rows of x (n, d)."""
    x = x - x.mean(0)  # the smaller the norms, the less their difference is rounded
    norms = (x**2).sum(1)
    squares = norms[:, None] + norms
    squares -= 2 * x @ x.T  # in place: it is the largest array here
    np.maximum(0, squares, out=squares)
    np.fill_diagonal(squares, 0)
    return np.asarray(np.sqrt(squares, out=squares))


def median_kernel(distances: Array) -> Array:
    """Kernel matrix exp(−d² / median d²) of samples with these distances (n, n)."""
    squares = distances**2
    different = squares[~np.eye(len(squares), dtype=bool)]
    typical = float(np.median(different, overwrite_input=True))
    squares /= -(typical or 1.0)
    return np.asarray(np.exp(squares, out=squares))


def separation(distances: Array, x: NDArray[np.intp], y: NDArray[np.intp]) -> float:
    """1 − (d̄_xx + d̄_yy) / (2 d̄_xy) of the rows x and y, at least 0."""
    within = sum(distances[np.ix_(k, k)].sum() / (len(k) * (len(k) - 1)) for k in (x, y))
    across = float(distances[np.ix_(x, y)].mean())
    return max(0.0, 1 - float(within) / (2 * across)) if across > 0 else 0.0


class TwoSampleTest(NamedTuple):
    """MMD² of two samples and its p-value; None where a sample has fewer than two values."""

    value: float | None
    """Unbiased estimate, which may be negative."""
    p: float | None


def two_sample_test(
    gram: Array, n: int, permutations: int, rng: np.random.Generator
) -> TwoSampleTest:
    """Permutation test of the first ``n`` values against the other m, from their kernel matrix.

    MMD² = (S_xx − n k(0))/(n(n−1)) + (S_yy − m k(0))/(m(m−1)) − 2 S_xy/(nm), where S are sums of
    the kernel over pairs. One product of the matrix with 0/1 columns gives the sums of all
    permutations. p = (1 + #{permuted ≥ observed}) / (1 + permutations).

    Reference: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012.
    """
    m = len(gram) - n
    if min(n, m) < 2:
        return TwoSampleTest(None, None)
    first = np.zeros((n + m, 1))
    first[:n] = 1
    permuted = rng.permuted(np.repeat(first, permutations, axis=1), axis=0)
    chosen = np.concatenate([first, permuted], axis=1)  # (n + m, 1 + permutations)
    xx = (chosen * (gram @ chosen)).sum(0)
    xy = gram.sum(0) @ chosen - xx
    yy = gram.sum() - 2 * xy - xx
    peak = gram[0, 0]
    values = (xx - n * peak) / (n * (n - 1)) + (yy - m * peak) / (m * (m - 1)) - 2 * xy / (n * m)
    exceeding = int(np.count_nonzero(values[1:] >= values[0] - 1e-12))  # tolerance for rounding
    return TwoSampleTest(float(values[0]), (1 + exceeding) / (1 + permutations))
