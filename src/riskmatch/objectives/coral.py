"""Correlation alignment."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.divergence import feature_coral
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class CORAL(Objective):
    r"""Match the means and covariances of the features of every pair of domains.

    .. math:: \frac1m \sum_e \bar R_e + \gamma\, \operatorname*{mean}_{i<j} \Bigl[
              \tfrac1d \lVert \mu_i - \mu_j \rVert^2
              + \tfrac1{d^2} \lVert C_i - C_j \rVert_F^2 \Bigr]

    with unbiased covariances C, so every domain needs two samples or more.
    """

    weight: float = tuned(1.0, LogUniform(-1, 1), NOT_NEGATIVE, domainbed="mmd_gamma")
    """γ, of the distance between features."""

    title = "CORAL"
    idea = "features"
    needs = "features"
    citation = (
        "Sun and Saenko, Deep CORAL: Correlation Alignment for Deep Domain Adaptation, "
        "ECCV Workshops 2016"
    )

    @property
    def min_samples(self) -> int:
        """Two, for a covariance."""
        return 2

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        features = ev.per_domain(ev.features)
        return Terms.penalised(ev.risk, self.weight, lambda: feature_coral(features))
