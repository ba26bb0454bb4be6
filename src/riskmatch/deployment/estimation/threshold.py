"""Average thresholded confidence."""

from __future__ import annotations

import numpy as np

from riskmatch.deployment.estimation.case import Case, for_accuracy


def average_thresholded_confidence(case: Case) -> float:
    r"""Share of the samples whose confidence reaches a threshold.

    .. math:: \frac1n \sum_i [c_i \ge t]

    with t such that the share of the validation samples below it is their share of errors.

    Example:
        >>> from types import SimpleNamespace as Values
        >>> known = Values(label=np.array([0, 0, 0, 1]), predicted=np.zeros(4, int))
        >>> known.confidence = np.array([0.9, 0.8, 0.7, 0.6])
        >>> scores = np.array([[0.75, 0.25], [0.65, 0.35]])
        >>> site = Values(confidence=scores[:, 0])
        >>> average_thresholded_confidence(Case("accuracy", site, known, ()))
        0.5

    Reference: Garg et al., *Leveraging Unlabeled Data to Predict Out-of-Distribution Performance*,
    ICLR 2022.
    """
    for_accuracy(case)
    ordered = np.sort(case.validation.confidence.astype(float))
    errors = int((~case.right).sum())
    threshold = ordered[errors] if errors < len(ordered) else np.inf
    return float(np.mean(case.site.confidence >= threshold))
