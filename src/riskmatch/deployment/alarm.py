"""Tests of new sites: are they worse than left-out ones differ, and unlike the pool? No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch import statistics
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.metrics import ACCURACY, Metric, find_metric
from riskmatch.report.density import kernel_matrix
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import bootstrap_interval, holm, p_of_worse_site

Array = statistics.Array
RISK = "risk"
"""Name of the mean risk where a metric is asked for."""
LEAST_SITES, LEAST_SAMPLES = 3, 10
"""Fewest left-out sites of a test, siblings counting as one, and fewest samples of a site, or
groups where there are any."""
MAX_DRAWN = 2000
"""Most samples, evenly spaced, of which a bootstrap tells the sampling error of a metric."""
MAX_SITE, MAX_POOL = 1000, 2000
"""Most samples of a new site and of the pool in a test of distributions, drawn at random."""
_ONE_SIGMA = 0.6827


def judged_metric(name: str, left_out: Mapping[str, LeftOutSite]) -> Metric:
    """The metric of a name; the mean risk, which is at least 0 unless a risk is negative."""
    if name != RISK:
        return find_metric(name)
    low = None if any((site.predictions.risk < 0).any() for site in left_out.values()) else 0
    return Metric("mean risk", False, (low, None), function=lambda y, *_: float(y.mean()))


def judge_sites(
    left_out: Mapping[str, LeftOutSite],
    sites: Mapping[str, tuple[Predictions, NDArray[Any] | None]],
    name: str,
    level: float = 0.05,
    looks: int = 1,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Test whether each new site is worse than left-out sites differ among themselves.

    The p-values are those of :func:`riskmatch.statistics.p_of_worse_site`, adjusted for several
    new sites by Holm's method. With fewer than three left-out sites nothing is tested.

    Args:
        left_out: the left-out sites of a model folder.
        sites: by name predictions on a new site, and the group of each of its samples.
        name: name of a metric, or ``risk`` for the mean risk.
        level: level of the tests.
        looks: number of times that the sites are tested.

    Returns:
        A row per site that is tested: ``site``, ``samples``, ``value``; ``reference``, the mean of
        the ``left_out`` sites; ``difference`` from it; ``p``, ``p_adjusted`` and ``alarm``.
        Then, by name, why any other site, new or left out, takes no part.
    """
    metric, reasons = judged_metric(name, left_out), dict[str, str]()
    known = dict[tuple[str, ...], list[tuple[float, float, float]]]()
    new = dict[str, tuple[float, float, float]]()
    for key, site in left_out.items():
        stated = site.mean_risk if name == RISK else site.metrics.get(name)
        try:
            measured = _measured(metric, name, site.predictions, None, stated, site.samples)
            known.setdefault(site.siblings or (key,), []).append(measured)
        except ValueError as error:
            reasons[f"left-out site {key}"] = str(error)
    for key, (scored, groups) in sites.items():
        try:
            new[key] = _measured(metric, name, scored, groups)
        except ValueError as error:
            reasons[f"site {key}"] = str(error)
    if len(known) < LEAST_SITES or not new:
        return [], reasons
    values, *population = ([[one[k] for one in part] for part in known.values()] for k in range(3))
    reference = float(np.mean([np.mean(part) for part in values]))
    about: Any = *population, metric.higher, metric.range, looks
    p = {key: p_of_worse_site(smooth, error, *about) for key, (_, smooth, error) in new.items()}
    rows = [
        {
            "site": key,
            "samples": len(sites[key][0].risk),
            "value": new[key][0],
            "reference": reference,
            "left_out": len(known),
            "difference": new[key][0] - reference,
            "p": p[key],
            "p_adjusted": adjusted,
            "alarm": adjusted <= level,
        }
        for key, adjusted in zip(p, holm([*p.values()]), strict=True)
    ]
    return rows, reasons


def _measured(
    metric: Metric,
    name: str,
    scored: Predictions,
    groups: NDArray[Any] | None = None,
    stated: float | None = None,
    total: int | None = None,
) -> tuple[float, float, float]:
    """Value of a metric on a site; the same, but for exact 0 and 1 per cent; sampling variance.

    Args:
        metric: the metric.
        name: its name.
        scored: predictions on the site, or on some of its ``total`` samples.
        groups: (n,) group of each sample.
        stated: the value on all samples.
        total: number of samples; by default those of the predictions.
    """
    n = len(scored.risk)
    units = total or (n if groups is None else len(np.unique(groups)))
    if units < LEAST_SAMPLES:
        unit = "samples" if groups is None else "groups"
        raise ValueError(f"{units} {unit}, and a test takes {LEAST_SAMPLES}")

    def value_of(part: Predictions) -> tuple[float, str]:
        if name == RISK:
            return metric(part.risk.astype(float), part.risk)
        return metric(part.label, part.predicted, part.scores)

    value, reason = value_of(scored) if stated is None else (stated, "")
    if reason:
        raise ValueError(f"no {metric.title}: {reason}")
    half = 0.5 / (units + 1) if metric.percent else 0.0  # half a sample right, half a sample wrong
    smooth = value + half * (1 - 2 * value)
    if groups is None and name == ACCURACY:
        return value, smooth, smooth * (1 - smooth) / (units + 1)
    if groups is None and name == RISK:
        return value, smooth, float(scored.risk.astype(float).var(ddof=1)) / units
    if groups is None:
        scored, groups = scored.thinned(MAX_DRAWN), np.arange(min(n, MAX_DRAWN))
    names, groups = np.unique(groups, return_inverse=True)
    ends = bootstrap_interval(lambda rows: value_of(scored.take(rows))[0], groups, _ONE_SIGMA)
    if math.isnan(ends[0]):
        raise ValueError(f"most draws of its samples have no {metric.title}")
    return value, smooth, (np.diff(ends).item() / 2) ** 2 * len(names) / units + half**2


def compare(
    values: Array, reference: Mapping[str, Array], permutations: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Test values of a site against the pool of the reference domains.

    In the pool every domain has the same weight, whatever its number of samples. MMD² is the
    unbiased estimate. Its kernel is that of training for scalars, and exp(−‖x − y‖² / median ‖x −
    y‖²) for features. The effect size of scalars is the probability that a value of the site
    exceeds one of the pool, ties counting half: 0.5 without a difference. That of features is
    1 − (d̄_xx + d̄_yy) / (2 d̄_xy), with mean distances of different samples: 0 without a
    difference, 1 where the two are far apart.

    Args:
        values: (n,) scalars, or (n, d) features of the site.
        reference: the same of every domain.
        permutations: number of permutations.
        rng: source of subsamples and permutations.

    Returns:
        Part of a row of :attr:`Monitoring.tests`.

    References: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012; Székely and Rizzo, *Energy
    Statistics*, JSPI 2013.
    """
    each = max(2, MAX_POOL // len(reference))
    site = statistics.subsample(values, MAX_SITE, rng)
    parts = [statistics.subsample(part, each, rng) for part in reference.values()]
    weights = np.concatenate([np.full(len(part), 1 / len(part) / len(parts)) for part in parts])
    joined, n, means = np.concatenate([site, *parts]), len(site), {}
    if joined.ndim == 1:
        gram = kernel_matrix(joined)
        effect = float(np.mean([statistics.superiority(site, part) for part in parts]))
        pool = float(np.mean([part.mean() for part in reference.values()]))
        means = {"mean": float(values.mean()), "reference_mean": pool}
    else:
        apart = statistics.distances(joined)
        effect, gram = statistics.separation(apart, n, weights), statistics.median_kernel(apart)
    mmd2, p = statistics.two_sample_test(gram, n, permutations, rng, weights)
    sizes = {"samples": n, "reference_samples": len(weights)}
    return {**sizes, **means, "mmd2": mmd2, "effect": effect, "p": p}
