"""Whether a model is right as often as it says."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskmatch.runs.predictions import Predictions

BINS = 15


def calibration(found: Predictions, bins: int = BINS) -> dict[str, Any]:
    """The reliability diagram in bins of equal width, and the expected calibration error.

    ECE = Σ_b n_b/n · |accuracy_b − confidence_b| over the bins (low, high]; bins without a sample
    are left out. Guo et al., *On Calibration of Modern Neural Networks*, ICML 2017.
    """
    confidence = found.confidence.astype(np.float64)
    right = found.predicted == found.label
    known = np.isfinite(confidence)
    confidence, right = confidence[known], right[known]
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    told, error = [], 0.0
    for number in np.unique(place):
        inside = place == number
        sure, accuracy = float(confidence[inside].mean()), float(right[inside].mean())
        n = int(inside.sum())
        error += n / len(place) * abs(accuracy - sure)
        told.append(
            {
                "low": number / bins,
                "high": (number + 1) / bins,
                "confidence": sure,
                "accuracy": accuracy,
                "n": n,
            }
        )
    return {"ece": error if told else None, "bins": told}
