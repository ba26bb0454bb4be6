"""Intervals with their unit, adjusted p-values and two-sample tests; without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Unit = Literal["domains", "new-domain"]
"""What an interval generalises over."""
UNITS: dict[Unit, str] = {"domains": "these domains", "new-domain": "a new domain"}
"""The units in words."""
PRIOR_SCALE = 0.15
"""Prior scale of the spread between domains, as a share of the range of the metric."""
LOG_PRIOR_SCALE = 0.5
"""Prior scale of the spread between domains of the logarithm of a metric."""
TAUS = 200
"""Values of the spread between domains over which posteriors integrate."""
QUANTILES = 24
"""Quantiles of the sampling error over which :func:`p_of_worse_site` integrates."""
ROTATIONS = 20_000
"""Random rotations of :func:`max_t`."""


def normal_quantile(level: float) -> float:
    """The z with probability ``level`` between −z and z.

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


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


def new_site_interval(
    values: Sequence[float | Sequence[float]],
    level: float = 0.9,
    bounds: tuple[float | None, float | None] = (0.0, 1.0),
    within: Sequence[float | Sequence[float]] | None = None,
) -> tuple[float, float]:
    r"""Random-effects prediction interval for a metric on one new site.

    .. math:: y_i \sim N(\mu, \tau^2 + v_i), \qquad y_\text{new} \sim N(\mu, \tau^2)

    with a flat prior of μ and a half-normal prior of τ, whose scale is 0.15 × the width of the
    bounds. The posterior of τ is computed by quadrature; given τ, the rest is normal. The ends are
    cut to the bounds. With one bound, the model is that of the logarithm of the distance from it,
    and the scale is 0.5; without any, the largest absolute value takes the place of the width.

    Args:
        values: the metric on each of m sites, one or more. Siblings are one draw of a site: a
            sequence of their k values, each of weight 1/k in the likelihood.
        level: probability that the metric on the new site is in the interval.
        bounds: lowest and highest value of the metric; None where there is no bound.
        within: sampling variance v of each value, in the shape of ``values``; None is 0, so that
            sampling counts as spread between sites.

    Example:
        >>> [round(end, 2) for end in new_site_interval([0.7, 0.8, 0.75])]
        [0.57, 0.93]
        >>> [round(end, 1) for end in new_site_interval([3.1, 4.0, 3.3], bounds=(0, None))]
        [2.0, 5.9]

    References: Higgins, Thompson and Spiegelhalter, *A Re-Evaluation of Random-Effects
    Meta-Analysis*, 2009; Röver et al., *On Weakly Informative Prior Distributions for the
    Heterogeneity Parameter in Bayesian Random-Effects Meta-Analysis*, 2021.
    """
    low, high = bounds
    y, v, weights = _weighted(values, within)
    if low is not None and high is not None:
        ends = _predicted(y, v, weights, PRIOR_SCALE * (high - low), level)
        return max(low, ends[0]), min(high, ends[1])
    if low is None and high is None:
        return _predicted(y, v, weights, PRIOR_SCALE * (float(abs(y).max()) or 1), level)
    logs = _predicted(*_unbounded(y, v, bounds), weights, LOG_PRIOR_SCALE, level)
    bound, sign = (low, 1) if low is not None else (high, -1)
    first, last = (float(np.float64(bound) + sign * math.exp(sign * end)) for end in logs)
    return first, last


def p_of_worse_site(
    value: float,
    variance: float,
    values: Sequence[float | Sequence[float]],
    within: Sequence[float | Sequence[float]],
    higher: bool = True,
    bounds: tuple[float | None, float | None] = (0.0, 1.0),
    looks: int = 1,
) -> float:
    r"""Test whether a metric on a new site is worse than that of sites differs from each other.

    The model is that of :func:`new_site_interval`, on the logit scale between two bounds and the
    log scale of the distance from one. p is the posterior predictive probability that the worst of
    the looks is as bad:

    .. math:: P\bigl(y_\text{new} + \min_{k \le \text{looks}} e_k \le \text{value}\bigr),
        \qquad e_k \sim N(0, \text{variance})

    The site itself is drawn once, whatever the number of looks; their sampling errors are taken for
    independent, which bounds the probability for looks that share samples (Slepian), so that with
    about as many samples in each the level is spent over all looks by one constant boundary
    (Pocock). The prior is dσ/σ of σ² = τ² + mean v: for equal v close to zero, p is that of
    Student's t with m − 1 degrees of freedom, which has its level whatever the spread between
    sites; for larger v it is conservative. A half-normal prior exceeds it where sites differ more
    than it expects.

    Args:
        value: the metric on the new site.
        variance: its sampling variance.
        values: the metric on each of m sites, two or more; siblings as there.
        within: sampling variance of each, in the same shape.
        higher: whether higher values are better.
        bounds: lowest and highest value of the metric; None where there is no bound.
        looks: number of times that the site is tested.

    Example:
        >>> sites, within = [0.81, 0.78, 0.84, 0.8], [4e-4] * 4
        >>> [round(p_of_worse_site(x, 4e-4, sites, within), 3) for x in (0.8, 0.72, 0.6)]
        [0.429, 0.041, 0.006]
        >>> round(p_of_worse_site(0.72, 4e-4, sites, within, looks=12), 3)
        0.082

    References: Higgins, Thompson and Spiegelhalter, *A Re-Evaluation of Random-Effects
    Meta-Analysis*, 2009; Pocock, *Group Sequential Methods in the Design and Analysis of Clinical
    Trials*, 1977; Slepian, *The One-Sided Barrier Problem for Gaussian Noise*, 1962.
    """
    from scipy.special import ndtr, ndtri

    y, v, weights = _weighted(values, within)
    z, v = _unbounded(np.append(y, value), np.append(v, variance), bounds)
    z = z if higher else -z
    posterior, mean, sd = _posterior(z[:-1], v[:-1], weights)
    if looks == 1:
        return float(posterior @ ndtr((z[-1] - mean) / np.hypot(sd, math.sqrt(v[-1]))))
    nodes, shares = np.polynomial.legendre.leggauss(QUANTILES)
    least = -np.expm1(np.log1p(-(1 + nodes) / 2) / looks)  # probabilities of one e
    worst = math.sqrt(v[-1]) * ndtri(least)[:, None]  # quantiles of min e
    return float(shares @ ndtr((z[-1] - mean - worst) / sd) @ posterior) / 2


def _weighted(
    values: Sequence[float | Sequence[float]], within: Sequence[float | Sequence[float]] | None
) -> tuple[Array, Array, Array]:
    """Values, their sampling variances, and weights that make siblings one site."""
    sites = [np.atleast_1d(np.asarray(site, float)) for site in values]
    y = np.concatenate(sites)
    v = np.zeros_like(y) if within is None else np.concatenate([*map(np.atleast_1d, within)])
    return y, v, np.concatenate([np.full(len(site), 1 / len(site)) for site in sites])


def _unbounded(
    y: Array, v: Array, bounds: tuple[float | None, float | None]
) -> tuple[Array, Array]:
    """Values, which increase with y, and variances on the logit, log or linear scale."""
    low, high = bounds
    if low is not None and high is not None:
        share = np.clip((y - low) / (high - low), 1e-6, 1 - 1e-6)
        return np.log(share / (1 - share)), v / ((high - low) * share * (1 - share)) ** 2
    if low is None and high is None:
        return y, v
    bound, sign = (low, 1) if low is not None else (high, -1)
    distance = abs(y - np.float64(bound))
    distance = np.maximum(distance, max(1e-3 * distance.max(), 1e-12))  # a perfect value has 0
    return sign * np.log(distance), v / distance**2


def _predicted(
    y: Array, v: Array, weights: Array, scale: float, level: float
) -> tuple[float, float]:
    """Quantiles of the posterior predictive distribution of :func:`new_site_interval`."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    posterior, mean, sd = _posterior(y, v, weights, scale)

    def quantile(p: float) -> float:
        ends = (mean - 12 * sd).min(), (mean + 12 * sd).max()
        return float(brentq(lambda x: posterior @ ndtr((x - mean) / sd) - p, *ends))

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


def _posterior(
    y: Array, v: Array, weights: Array, scale: float | None = None
) -> tuple[Array, Array, Array]:
    """Posterior of τ on a grid, and mean and standard deviation of a new site given each τ.

    The prior of τ is half-normal with a scale, and without one dσ/σ of σ² = τ² + mean v.
    """
    apart = float(np.sqrt(((y - y.mean()) ** 2).sum()))
    typical = scale or max(apart, math.sqrt(v.mean()), 1e-12)
    tau = np.geomspace(1e-4 * typical, (8 if scale else 200) * max(typical, apart), TAUS)
    variance = tau[:, None] ** 2 + v  # (τ, n)
    precision = (weights / variance).sum(1)
    mean = (weights * y / variance).sum(1) / precision
    fit = weights * (np.log(variance) + (y - mean[:, None]) ** 2 / variance)
    prior = np.log(tau**2 / (tau**2 + v.mean()))
    if scale:
        prior = np.log(tau) - (tau / scale) ** 2 / 2
    log_posterior = prior - (fit.sum(1) + np.log(precision)) / 2
    posterior = np.exp(log_posterior - log_posterior.max())  # of log τ, whose steps are equal
    return posterior / posterior.sum(), mean, np.sqrt(tau**2 + 1 / precision)


def at_least_worst(m: int) -> float:
    """Probability m/(m+1) that a new site is no worse than the worst of m: its rank is uniform.

    It holds for exchangeable sites of any distribution.

    Example:
        >>> at_least_worst(4)
        0.8
    """
    return m / (m + 1)


class PairedGain(NamedTuple):
    """A mean difference from a control, half of its interval and its two-sided p-value.

    Half and p are None without a degree of freedom.
    """

    mean: float
    half: float | None
    p: float | None


def paired_gain(
    differences: Sequence[Sequence[float]], unit: Unit = "domains", level: float = 0.95
) -> PairedGain:
    """Mean over m domains of differences paired by trial, with its t-interval.

    For *these domains* domains are fixed and trials are drawn: the variance is that of trials
    within domains, pooled over these, with N − m degrees of freedom of N differences. For *a new
    domain* domains are drawn: the variance is that of the m means of domains, with m − 1.

    Args:
        differences: (m, trials) differences by domain; rows may be ragged, NaN is missing.
        unit: what the interval generalises over.
        level: level of the interval.

    Example:
        >>> gain = paired_gain([[1.0, 2.0], [3.0, 4.0]])
        >>> gain.mean, round(gain.half, 2), round(gain.p, 3)
        (2.5, 1.52, 0.02)
        >>> round(paired_gain([[1.0, 2.0], [3.0, 4.0]], "new-domain").half, 1)
        12.7

    Reference: Scheffé, *The Analysis of Variance*, 1959: a one-way layout with fixed effects, and
    the means of one with random effects.
    """
    from scipy.special import stdtr, stdtrit

    rows, share = _rows(differences, unit)
    df, mean = sum(len(row) - 1 for row in rows), float(np.mean([row.mean() for row in rows]))
    if not df:
        return PairedGain(mean, None, None)
    rest, t = float(sum(((row - row.mean()) ** 2).sum() for row in rows)), abs(mean) / share
    if rest <= 1e-14 * (t**2 + rest):  # equal differences, but for rounding
        return PairedGain(mean, 0.0, 0.0 if mean else 1.0)
    sd = math.sqrt(rest / df)
    p = 2 * float(stdtr(df, -t / sd))
    return PairedGain(mean, float(stdtrit(df, (1 + level) / 2)) * share * sd, p)


def _rows(differences: Sequence[Sequence[float]], unit: Unit) -> tuple[list[Array], float]:
    """Known values by domain, or all means of domains, and the factor of the error of the mean."""
    table = [np.asarray(row, float) for row in differences]
    rows = [row[~np.isnan(row)] for row in table]
    rows = [row for row in rows if len(row)]
    if unit == "new-domain":
        rows = [np.array([row.mean() for row in rows])]
    return rows, math.sqrt(sum(1 / len(row) for row in rows)) / len(rows)


def _contrasts(differences: Sequence[Sequence[float]], unit: Unit) -> Array:
    """Orthonormal coordinates of a table, the mean over domains first."""
    rows, share = _rows(differences, unit)
    mean = np.mean([row.mean() for row in rows]) / share
    return np.concatenate([[mean], *(_helmert(len(row)) @ row for row in rows)])


@cache
def _helmert(n: int) -> Array:
    """Orthonormal contrasts (n − 1, n)."""
    from scipy.linalg import helmert

    return np.asarray(helmert(n))


def max_t(
    tables: Sequence[Sequence[Sequence[float]]], unit: Unit = "domains"
) -> list[float | None]:
    """P-values of k gains over one control, adjusted together by step-down max-t.

    The t statistics are those of :func:`paired_gain`. Under the null hypothesis a rotation of the
    orthonormal contrasts of a table leaves their distribution as it is, so that the largest |t|
    under random rotations, the same for all k methods, has its exact joint distribution for normal
    differences with any correlation between methods. Tables that lack different cells cannot be
    rotated together: their p-values are adjusted by :func:`holm`.

    Args:
        tables: differences of each method as for :func:`paired_gain`, aligned: the same domains and
            trials at the same places.
        unit: what the p-values generalise over.

    Returns:
        Adjusted p-values; None where a gain has none.

    Example:
        >>> steady, noisy = [[1.0, 2.0], [3.0, 4.0]], [[1.0, 9.0], [-3.0, 4.0]]
        >>> [round(p, 2) for p in max_t([steady, noisy])]
        [0.04, 0.41]

    References: Langsrud, *Rotation Tests*, 2005; Westfall and Young, *Resampling-Based Multiple
    Testing*, 1993, algorithm 2.8.
    """
    raw = [paired_gain(table, unit).p for table in tables]
    known = [k for k, p in enumerate(raw) if p is not None]
    p = [one for one in raw if one is not None]
    cells = {tuple(tuple(np.isnan(row)) for row in map(np.asarray, tables[k])) for k in known}
    if len(cells) == 1 and len(p) > 1:
        columns = np.stack([_contrasts(tables[k], unit) for k in known], 1)  # (df + 1, k)
        p = _rotated(columns, np.asarray(p))
    else:
        p = holm(p)
    by_table = dict(zip(known, p, strict=True))
    return [by_table.get(k) for k in range(len(raw))]


def _rotated(columns: Array, p: Array) -> list[float]:
    """Step-down max-t by rotations of columns (df + 1, k) with p-values p of single ones.

    |t| grows with the cosine of a column and the direction of the mean, which takes its place.
    """
    directions = np.random.default_rng(0).normal(size=(ROTATIONS, len(columns)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = np.linalg.norm(columns, axis=0)
    units = columns / np.where(lengths > 0, lengths, 1)
    order = np.argsort(abs(units[0]), kind="stable")  # the smallest first
    units = units[:, order]
    rotated = abs(units.T @ directions.T)
    largest = np.maximum.accumulate(rotated)  # of a method and those with a smaller |t|
    exceeding = (largest >= abs(units[0])[:, None]).sum(1)
    steps = np.maximum((1 + exceeding) / (1 + ROTATIONS), p[order])
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(steps[::-1])[::-1]
    return [float(one) for one in adjusted]


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


def even(total: int, most: int) -> NDArray[np.intp]:
    """Positions of at most ``most`` evenly spaced of some samples.

    Example:
        >>> even(10, 4).tolist(), even(2, 4).tolist()
        ([0, 2, 5, 7], [0, 1])
    """
    kept = min(total, most)
    return np.arange(kept) * total // max(1, kept)


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


def separation(distances: Array, n: int, weights: Array) -> float:
    """1 − (d̄_xx + d̄_yy) / (2 d̄_xy) of the first n rows x and the others y, at least 0.

    Means within are over pairs of different samples; ``weights`` of y (m,) sum to 1.
    """
    xx = distances[:n, :n].sum() / (n * (n - 1))
    yy = weights @ distances[n:, n:] @ weights / (1 - weights @ weights)
    across = float(distances[:n, n:].mean(0) @ weights)
    return max(0.0, 1 - float(xx + yy) / (2 * across)) if across > 0 else 0.0


class TwoSampleTest(NamedTuple):
    """MMD² of two samples and its p-value; None where a sample has fewer than two values."""

    value: float | None
    """Unbiased estimate, which may be negative."""
    p: float | None


def two_sample_test(
    gram: Array, n: int, permutations: int, rng: np.random.Generator, weights: Array | None = None
) -> TwoSampleTest:
    r"""Permutation test of the first ``n`` values against the other m, from their kernel matrix.

    .. math:: \frac{S_{xx} - n k(0)}{n (n - 1)}
        + \frac{S_{yy} - \sum_j w_j^2 k(0)}{1 - \sum_j w_j^2} - \frac{2}{n} S_{xy}

    where S are sums of the kernel over pairs, weighted by w in y. Products of the matrix with
    columns give the sums of all permutations, in which a weight stays at its place.
    p = (1 + #{permuted ≥ observed}) / (1 + permutations).

    Args:
        gram: (n + m, n + m) kernel matrix, whose diagonal is k(0).
        n: size of the first sample.
        permutations: number of permutations.
        rng: source of permutations.
        weights: (m,) weights of the second sample, which sum to 1; by default 1/m.

    Reference: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012.
    """
    m = len(gram) - n
    if min(n, m) < 2:
        return TwoSampleTest(None, None)
    weights = np.full(m, 1 / m) if weights is None else weights
    order = np.arange(n + m)[:, None]
    permuted = rng.permuted(np.repeat(order, permutations, axis=1), axis=0)
    order = np.concatenate([order, permuted], axis=1)  # (n + m, 1 + permutations)
    x = (order < n).astype(float)
    y = np.concatenate([np.zeros(n), weights])[order]
    of_x = gram @ x
    of_y = (gram.sum(1, keepdims=True) - of_x) / m if np.ptp(weights) == 0 else gram @ y
    xx, yy, xy = (x * of_x).sum(0), (y * of_y).sum(0), (x * of_y).sum(0)
    peak, squares = gram[0, 0], weights @ weights
    values = (xx - n * peak) / (n * (n - 1)) + (yy - squares * peak) / (1 - squares) - 2 * xy / n
    exceeding = int(np.count_nonzero(values[1:] >= values[0] - 1e-12))  # tolerance for rounding
    return TwoSampleTest(float(values[0]), (1 + exceeding) / (1 + permutations))
