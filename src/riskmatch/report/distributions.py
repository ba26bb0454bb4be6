"""Risk distributions of the domains at several steps, and the MMD between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from riskmatch.files import finite
from riskmatch.report.density import DIGITS, Array, bin_edges, finite_risks, kde
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import TwoSampleTest, two_sample_test

T = TypeVar("T")
MAX_STEPS, POINTS = 12, 120
MANY, FEW_STEPS, FEW_POINTS = 50, 2, 40
"""Number of domains beyond which fewer steps and points of their distributions are shown."""
MAX_DOMAINS = 30
"""Most domains whose distances from each other, and whose samples, are shown."""
MAX_SAMPLES, MAX_POOL = 250, 1500
"""Largest number of risks per domain, and of all domains together, in the two-sample tests."""
PERMUTATIONS = 200
BLOCK = 64
"""Rows of a kernel matrix that are computed at a time."""


def spread(values: Sequence[T], limit: int = MAX_STEPS) -> list[T]:
    """At most ``limit`` evenly spaced values, including the first and the last.

    Example:
        >>> spread(range(0, 1000, 100), 4)
        [0, 300, 600, 900]
    """
    places = np.linspace(0, len(values) - 1, min(limit, len(values))).round().astype(int)
    return [values[place] for place in places]


def some_domains(domains: Sequence[str], tests: Sequence[str]) -> list[str]:
    """At most ``MAX_DOMAINS`` evenly spaced domains; test domains have a claim to half of them."""
    tested = spread([name for name in domains if name in tests], MAX_DOMAINS // 2)
    others = [name for name in domains if name not in tests]
    kept = {*tested, *spread(others, MAX_DOMAINS - len(tested))}
    return [name for name in domains if name in kept]


def snapshots(
    predictions: Mapping[int, Mapping[str, Predictions]], tests: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Histogram, density, distribution function and pairwise MMD, from predictions by step.

    Of many domains fewer steps are shown, and the MMD between some: evenly spaced ones of the test
    domains ``tests`` and of the others.
    """
    if not predictions:
        return []
    domains = list(dict.fromkeys(name for by_domain in predictions.values() for name in by_domain))
    many = len(domains) > MANY
    points = FEW_POINTS if many else POINTS
    shown = some_domains(domains, tests)
    risks = {
        step: {domain: finite_risks(values) for domain, values in predictions[step].items()}
        for step in spread(list(predictions), FEW_STEPS if many else len(predictions))
    }
    edges = bin_edges([values for domains in risks.values() for values in domains.values()])
    return [
        {
            "step": step,
            "domains": {d: distribution(values, edges, points) for d, values in by_domain.items()},
            "mmd": _mmd_matrix({d: values for d, values in by_domain.items() if d in shown}),
        }
        for step, by_domain in risks.items()
    ]


def distribution(risks: Array, edges: Sequence[float], points: int = POINTS) -> dict[str, Any]:
    """Histogram, density and distribution function of the risks of one domain.

    The bandwidth of the density is at least one bin: most risks of an easy domain are almost zero,
    where Silverman's bandwidth would give a spike.
    """
    n = len(risks)
    x = np.linspace(edges[0], edges[-1], points)
    counts, _ = np.histogram(risks, edges)
    density = kde(risks, x, min_bandwidth=edges[1] - edges[0]) if n else np.zeros(points)
    below = np.searchsorted(np.sort(risks), x, side="right")
    return {
        "n": n,
        "mean": float(risks.mean()) if n else None,
        "edges": list(edges),
        "heights": finite(counts / (max(1, n) * np.diff(edges)), DIGITS),
        "x": x.tolist(),
        "density": finite(density, DIGITS),
        "cdf": finite(below / max(1, n), DIGITS),
    }


def _mmd_matrix(risks: Mapping[str, Array]) -> dict[str, Any]:
    tests = pairwise_mmd(list(risks.values()))
    return {
        "domains": list(risks),
        "value": [[None if t.value is None else max(0.0, t.value) for t in row] for row in tests],
        "p": [[test.p for test in row] for row in tests],
    }


def pairwise_mmd(samples: Sequence[Array]) -> list[list[TwoSampleTest]]:
    """Two-sample tests of all pairs, on at most ``MAX_SAMPLES`` values of each sample.

    MMD² is :func:`riskmatch.mmd2` with ``unbiased=True``: the kernel is that of training and of the
    figures, and the expectation is zero for equal distributions. Subsamples and permutations are
    the same in every call.

    Args:
        samples: one array (n,) per domain.
    """
    limit = min(MAX_SAMPLES, MAX_POOL // max(1, len(samples)))
    rng = np.random.default_rng(0)
    taken = [rng.permutation(x)[:limit] if len(x) > limit else x for x in samples]
    stops = np.cumsum([len(x) for x in taken])
    rows = [np.arange(stop - len(x), stop) for x, stop in zip(taken, stops, strict=True)]
    gram = kernel_matrix(np.concatenate(taken)) if taken else np.empty((0, 0))
    tests = [[TwoSampleTest(0.0, None)] * len(samples) for _ in samples]
    for i, j in combinations(range(len(samples)), 2):
        both = np.concatenate([rows[i], rows[j]])
        tests[i][j] = tests[j][i] = two_sample_test(
            gram[np.ix_(both, both)], len(rows[i]), PERMUTATIONS, rng
        )
    return tests


def kernel_matrix(x: Array) -> Array:
    """Kernel matrix (n, n) of values (n,), with the default kernel of :func:`riskmatch.mmd2`."""
    import torch

    from riskmatch.divergence import RBFMixture

    kernel, values = RBFMixture.authors_code(), torch.from_numpy(x)
    gram = torch.empty(len(x), len(x), dtype=values.dtype)
    for start in range(0, len(x), BLOCK):  # the kernel computes a matrix for each bandwidth
        gram[start : start + BLOCK] = kernel(values[start : start + BLOCK, None] - values)
    return np.asarray(gram.numpy())
