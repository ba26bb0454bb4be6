"""Synthetic predictions."""

import numpy as np

from riskmatch.runs.predictions import Predictions


def predictions(label, predicted, confidence=0.9, risk=1.0, index=None):
    n = len(label)
    return Predictions(
        np.arange(n) if index is None else np.asarray(index),
        np.asarray(label),
        np.asarray(predicted),
        np.broadcast_to(np.asarray(confidence, np.float32), n),
        np.broadcast_to(np.asarray(risk, np.float32), n),
    )


def random(n=50, classes=3, seed=0):
    """Predictions on ``n`` samples with log-normal risks."""
    rng = np.random.default_rng(seed)
    label, predicted = rng.integers(0, classes, (2, n))
    return predictions(label, predicted, rng.uniform(1 / classes, 1, n), rng.lognormal(0, 1, n))
