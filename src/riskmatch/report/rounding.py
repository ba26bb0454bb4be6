"""Round numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def rounded(value: Any, digits: int = 6) -> Any:
    """``value`` with every float rounded to ``digits`` significant digits; NaN and ±∞ become None.

    Example:
        >>> rounded({"risk": (1 / 3, float("nan")), "n": 3}, digits=2)
        {'risk': [0.33, None], 'n': 3}
    """
    if isinstance(value, Mapping):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value
