"""A distribution in few numbers: a histogram, a smooth density, the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """Of values that are never negative."""

    mean: float
    edges: tuple[float, ...]
    """Of the bins."""
    heights: tuple[float, ...]
    """Of the bins, as densities: with the values beyond the last edge they would sum to one."""
    grid: tuple[float, ...]
    density: tuple[float, ...]
    """The kernel density estimate on the grid."""

    @classmethod
    def of(cls, values: Array, edges: Sequence[float], points: int = 200) -> Distribution:
        """The distribution of ``values``, seen from the first to the last of ``edges``.

        Example:
            >>> Distribution.of(np.array([0.5, 0.5, 1.5, 3.5]), [0, 1, 2]).heights
            (0.5, 0.25)
        """
        counts, _ = np.histogram(values, edges)
        heights = counts / (len(values) * np.diff(edges))
        grid = np.linspace(edges[0], edges[-1], points)
        return cls(
            float(values.mean()),
            *(_rounded(part) for part in (np.asarray(edges), heights, grid, kde(values, grid))),
        )

    @classmethod
    def of_logs(cls, values: Array, edges: Sequence[float], points: int = 200) -> Distribution:
        """The distribution over orders of magnitude: heights are densities per decade.

        Values below the first edge count in the first bin.

        Example:
            >>> Distribution.of_logs(np.array([0.002, 0.02, 0.03, 5.0]), [0.001, 0.01, 0.1]).heights
            (0.25, 0.5)
        """
        decades = np.log10(edges)
        shifted = np.log10(np.maximum(values, edges[0])) - decades[0]
        shape = cls.of(shifted, (decades - decades[0]).tolist(), points)
        grid = edges[0] * 10 ** np.asarray(shape.grid)
        return replace(
            shape,
            mean=float(values.mean()),
            edges=_rounded(np.asarray(edges, dtype=float)),
            grid=_rounded(grid),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Distribution:
        """The distribution that :meth:`to_json` wrote."""
        return cls(values["mean"], *(tuple(values[name]) for name in _SERIES))


_SERIES = ("edges", "heights", "grid", "density")


def kde(values: Array, grid: Array, narrowest: float = 0.0) -> Array:
    """The Gaussian kernel density estimate of values that are never negative.

    The bandwidth is Silverman's, 0.9 min(σ, IQR / 1.34) n^(−1/5), or ``narrowest`` where that is
    more; what a kernel puts below zero is reflected, so that the density is not too low near zero.
    """
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min((s for s in (values.std(), (high - low) / 1.34) if s > 0), default=1.0)
    width = max(narrowest, 0.9 * spread * len(values) ** -0.2)
    density = np.zeros_like(grid)
    for part in np.array_split(np.concatenate([values, -values]), 1 + len(values) // 2000):
        density += np.exp(-0.5 * ((grid[:, None] - part) / width) ** 2).sum(1)
    return np.asarray(density / (len(values) * width * np.sqrt(2 * np.pi)))


def _rounded(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
