"""A metric: the class that is recognised least often."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.metrics import Metric


def worst_recall(
    y: NDArray[Any], predicted: NDArray[Any], scores: NDArray[Any] | None = None
) -> float:
    """The lowest share of samples that is recognised, over the classes that are present."""
    return min(float(np.mean(predicted[y == label] == label)) for label in np.unique(y))


WORST_RECALL = Metric(title="worst recall", range=(0, 1), function=worst_recall)
