"""Expected metric under calibrated confidences."""

from __future__ import annotations

import numpy as np

from riskmatch.deployment.estimation.case import Array, Case

DRAWS = 20
"""Draws of the labels."""


def calibrated_confidence(case: Case) -> float:
    r"""Expected metric, with labels that follow calibrated probabilities.

    The predicted class of a sample is right with probability σ(a · logit(c) + b), where a and b
    are fitted to validation samples by Platt's method; the other classes share the rest as the
    scores have it. The accuracy is the mean of that probability; other metrics are the mean over
    draws of the labels.

    References: Platt, *Probabilistic Outputs for Support Vector Machines*, 1999; Guo et al., *On
    Calibration of Modern Neural Networks*, ICML 2017.
    """
    from scipy.special import expit

    site = case.site
    slope, start = _platt(_logit(case.validation.confidence), case.right)
    right = expit(slope * _logit(site.confidence) + start)
    if case.name == "accuracy":
        return float(right.mean())
    p = site.scores.astype(float)
    rows = np.arange(len(p))
    p[rows, site.predicted] = 0
    p *= ((1 - right) / np.maximum(p.sum(1), 1e-12))[:, None]
    p[rows, site.predicted] = 1 - p.sum(1)
    rng, cumulative = np.random.default_rng(0), p.cumsum(1)
    values = []
    for _ in range(DRAWS):
        y = (rng.random((len(p), 1)) > cumulative[:, :-1]).sum(1)
        values.append(case.metric(y, site.predicted, site.scores)[0])
    return float(np.mean(values))


def _platt(logits: Array, right: Array) -> tuple[float, float]:
    """Slope and intercept of the logarithm of the odds of being right."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    ones, zeros = int(right.sum()), int((~right).sum())
    target = np.where(right, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    n = len(right)
    model = LogisticRegression(C=1e6).fit(
        np.concatenate([logits, logits])[:, None],
        np.repeat([1, 0], n),
        np.concatenate([target, 1 - target]),
    )
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def _logit(confidence: Array) -> Array:
    from scipy.special import logit

    return np.asarray(logit(np.clip(confidence.astype(float), 1e-6, 1 - 1e-6)))
