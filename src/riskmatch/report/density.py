"""Distributions of risks: histograms, kernel density estimates, and the MMD between domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import finite
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import TwoSampleTest, subsample, two_sample_test

Array = NDArray[np.float64]
T = TypeVar("T")
BINS, GRID = 40, 200
DIGITS = 6
"""Significant digits of stored numbers."""
COVERAGE = 0.99
"""Fraction of the risks that lie within the bins."""
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


@dataclass(frozen=True)
class DensityEstimate:
    """Histogram, kernel density estimate and mean of non-negative values."""

    mean: float
    edges: tuple[float, ...]
    """Edges of the histogram bins."""
    heights: tuple[float, ...]
    """Histogram heights as densities; values beyond the last edge count in the normalisation."""
    grid: tuple[float, ...]
    density: tuple[float, ...]
    """Kernel density estimate on the grid."""

    @classmethod
    def of(cls, values: Array, edges: Sequence[float]) -> DensityEstimate:
        """Estimate the density of ``values`` between the first and the last of ``edges``.

        Example:
            >>> DensityEstimate.of(np.array([0.5, 0.5, 1.5, 3.5]), [0, 1, 2]).heights
            (0.5, 0.25)
        """
        counts, _ = np.histogram(values, edges)
        heights = counts / (len(values) * np.diff(edges))
        grid = np.linspace(edges[0], edges[-1], GRID)
        parts = (np.asarray(edges, dtype=float), heights, grid, kde(values, grid))
        return cls(float(values.mean()), *(tuple(finite(part, DIGITS)) for part in parts))

    @classmethod
    def per_decade(cls, values: Array, edges: Sequence[float]) -> DensityEstimate:
        """Estimate the density of log10 of ``values``: heights are densities per decade.

        Values below the first edge count in the first bin.

        Example:
            >>> values = np.array([0.002, 0.02, 0.03, 5.0])
            >>> DensityEstimate.per_decade(values, [0.001, 0.01, 0.1]).heights
            (0.25, 0.5)
        """
        decades = np.log10(edges)
        shifted = np.log10(np.maximum(values, edges[0])) - decades[0]
        estimate = cls.of(shifted, (decades - decades[0]).tolist())
        return replace(
            estimate,
            mean=float(values.mean()),
            edges=tuple(finite(np.asarray(edges, dtype=float), DIGITS)),
            grid=tuple(finite(edges[0] * 10 ** np.asarray(estimate.grid), DIGITS)),
        )


def kde(values: Array, grid: Array, min_bandwidth: float = 0.0) -> Array:
    """Gaussian kernel density estimate of non-negative values, on ``grid``.

    The bandwidth is Silverman's, 0.9 min(σ, IQR / 1.34) n^(−1/5), and at least ``min_bandwidth``.
    Mass below zero is reflected, so that the density is not underestimated near zero.
    """
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min((s for s in (values.std(), (high - low) / 1.34) if s > 0), default=1.0)
    width = max(min_bandwidth, 0.9 * spread * len(values) ** -0.2)
    density = np.zeros_like(grid)
    for part in np.array_split(np.concatenate([values, -values]), 1 + len(values) // 2000):
        density += np.exp(-0.5 * ((grid[:, None] - part) / width) ** 2).sum(1)
    return np.asarray(density / (len(values) * width * np.sqrt(2 * np.pi)))


def bin_edges(samples: Sequence[Array], bins: int = BINS) -> list[float]:
    """Edges of equal bins from zero that cover almost all values."""
    pool = np.concatenate(samples) if samples else np.empty(0)
    top = float(np.quantile(pool, COVERAGE)) if len(pool) else 0.0
    return [float(edge) for edge in np.linspace(0, top if top > 0 else 1.0, bins + 1)]


def finite_risks(predictions: Predictions) -> Array:
    """Finite risks in double precision."""
    risks = predictions.risk.astype(np.float64)
    return np.asarray(risks[np.isfinite(risks)])


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


def distribution(risks: Array, edges: Sequence[float], points: int) -> dict[str, Any]:
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
    taken = [subsample(x, limit, rng) for x in samples]
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
