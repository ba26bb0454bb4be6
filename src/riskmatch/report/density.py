"""Density estimates of risks: a histogram and a Gaussian kernel density estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import finite
from riskmatch.runs.predictions import Predictions

Array = NDArray[np.float64]
BINS, POINTS = 40, 200
DIGITS = 6
"""Significant digits of stored numbers."""
COVERAGE = 0.99
"""Fraction of the risks that lie within the bins."""
_SERIES = ("edges", "heights", "grid", "density")


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
        grid = np.linspace(edges[0], edges[-1], POINTS)
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

    def to_json(self) -> dict[str, Any]:
        """Fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> DensityEstimate:
        """Estimate from the values that :meth:`to_json` returned."""
        return cls(values["mean"], *(tuple(values[name]) for name in _SERIES))


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
