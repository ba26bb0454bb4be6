"""Difference of confidences."""

from __future__ import annotations

import numpy as np

from riskmatch.deployment.estimation.case import Case, for_accuracy


def difference_of_confidences(case: Case) -> float:
    r"""Accuracy on validation samples, less what the mean confidence falls from them to the site.

    .. math:: a_\text{val} - (\bar c_\text{val} - \bar c_\text{site})

    cut to [0, 1].

    Reference: Guillory et al., *Predicting with Confidence on Unseen Distributions*, ICCV 2021.
    """
    for_accuracy(case)
    fall = case.validation.confidence.mean(dtype=float) - case.site.confidence.mean()
    return float(np.clip(case.right.mean() - fall, 0, 1))
