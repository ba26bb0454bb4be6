"""Which classes a model takes for which."""

from __future__ import annotations

import numpy as np

from riskmatch.runs.predictions import Predictions


def confusion(found: Predictions, classes: int) -> list[list[int]]:
    """How many samples of each class, the row, were taken for each class, the column.

    Example:
        >>> a = np.array([0, 0, 1])
        >>> confusion(Predictions(a, np.array([0, 1, 1]), np.array([0, 0, 1]), a, a), 2)
        [[1, 0], [1, 1]]
    """
    pairs = found.label.astype(np.int64) * classes + found.predicted
    counts = np.bincount(pairs, minlength=classes * classes)
    return [[int(n) for n in row] for row in counts.reshape(classes, classes)]
