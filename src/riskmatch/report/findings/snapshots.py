"""The risk distributions of the domains, step by step, on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.report.distribution import kde
from riskmatch.report.findings.mmd import pairwise
from riskmatch.runs.predictions import Predictions

Array = NDArray[np.float64]
ByStep = Mapping[int, Mapping[str, Predictions]]
"""What a run said of samples of one split, by step and domain."""

STEPS, BINS, POINTS = 12, 40, 120
INSIDE = 0.99
"""Of the risks of all steps and domains, the share that the bins hold."""


def few(steps: Sequence[int], most: int = STEPS) -> list[int]:
    """At most so many steps, evenly spread, the first and the last among them.

    Example:
        >>> few(range(0, 1000, 100), 4)
        [0, 300, 600, 900]
    """
    places = np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int)
    return [steps[place] for place in places]


def snapshots(found: ByStep) -> list[dict[str, Any]]:
    """Histogram, density, distribution function and pairwise MMD of every step."""
    if not found:
        return []
    risks = {
        step: {domain: finite_risks(values) for domain, values in domains.items()}
        for step, domains in found.items()
    }
    edges = edges_of([values for domains in risks.values() for values in domains.values()])
    return [
        {
            "step": step,
            "domains": {d: distribution(values, edges) for d, values in domains.items()},
            "mmd": _mmd(domains),
        }
        for step, domains in risks.items()
    ]


def edges_of(samples: Sequence[Array], bins: int = BINS) -> list[float]:
    """The edges of bins from zero up that hold almost all values."""
    everything = np.concatenate(samples) if samples else np.empty(0)
    top = float(np.quantile(everything, INSIDE)) if len(everything) else 0.0
    return [float(edge) for edge in np.linspace(0, top if top > 0 else 1.0, bins + 1)]


def finite_risks(found: Predictions) -> Array:
    """The risks that are numbers, in double precision."""
    risks = found.risk.astype(np.float64)
    return np.asarray(risks[np.isfinite(risks)])


def distribution(risks: Array, edges: Sequence[float]) -> dict[str, Any]:
    """Histogram, density and distribution function of one domain; zeros where it has no sample.

    Most risks of an easy domain are almost zero, and Silverman's kernel for them is a mere spike:
    no kernel is narrower than a bin.
    """
    n = len(risks)
    x = np.linspace(edges[0], edges[-1], POINTS)
    counts, _ = np.histogram(risks, edges)
    density = kde(risks, x, narrowest=edges[1] - edges[0]) if n else np.zeros(POINTS)
    below = np.searchsorted(np.sort(risks), x, side="right")
    return {
        "n": n,
        "mean": float(risks.mean()) if n else None,
        "edges": list(edges),
        "heights": _short(counts / (max(1, n) * np.diff(edges))),
        "x": x.tolist(),
        "density": _short(density),
        "cdf": _short(below / max(1, n)),
    }


def _short(values: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _mmd(risks: Mapping[str, Array]) -> dict[str, Any]:
    tests = pairwise(list(risks.values()))
    return {
        "domains": list(risks),
        "value": [[None if t.value is None else max(0.0, t.value) for t in row] for row in tests],
        "p": [[test.p for test in row] for row in tests],
    }
