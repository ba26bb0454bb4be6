"""How two methods differ where both were measured, with an interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import ClassVar


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences.

    Example:
        >>> str(Difference(1.25, 0.5, 6)), str(Difference(-3.0, None, 1))
        ('+1.2 ± 0.5', '−3.0')
    """

    mean: float
    half: float | None
    """Of the width of the 95 % interval; None where there is one pair."""
    pairs: int
    measure: ClassVar[str] = "95 % ±"
    """What stands after ±."""

    @property
    def numbers(self) -> tuple[float, float | None, int]:
        """The mean, what stands after ±, and of how many."""
        return self.mean, self.half, self.pairs

    def __str__(self) -> str:
        mean = f"{self.mean:+.1f}".replace("-", "−")
        return mean if self.half is None else f"{mean} ± {self.half:.1f}"


def paired(ours: Mapping[Hashable, float], theirs: Mapping[Hashable, float]) -> Difference | None:
    """``ours`` minus ``theirs`` over the keys they share; None where they share none.

    The interval is Student's: mean ± t · s / √n, with s the standard deviation of the n differences
    and t the 97.5 % point at n − 1 degrees of freedom.
    """
    differences = [ours[key] - theirs[key] for key in ours if key in theirs]
    n = len(differences)
    if not n:
        return None
    half = t_point(n - 1) * stdev(differences) / math.sqrt(n) if n > 1 else None
    return Difference(fmean(differences), half, n)


def t_point(freedom: int, level: float = 0.95) -> float:
    """Where Student's |t| stays below with probability ``level``.

    Example:
        >>> round(t_point(1), 3), round(t_point(7), 3)
        (12.706, 2.365)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # bisection in the angle, in which the probability is bounded and smooth
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.tan((low + high) / 2) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """P(|t| < √ν tan θ) for whole ν: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= k / (k + 1) * cosine**2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
