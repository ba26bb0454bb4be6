"""Maximum mean discrepancy of features."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.divergence import feature_mmd2
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class FeatureMMD(Objective):
    r"""Match the feature distributions of every pair of domains by a kernel distance.

    .. math:: \frac1m \sum_e \bar R_e + \gamma\, \operatorname*{mean}_{i<j}
              \bigl[ \bar K_{ii} + \bar K_{jj} - 2 \bar K_{ij} \bigr]

    with K̄ the mean kernel between the features of two domains, and the kernel the sum of
    exp(−10^p ‖x − y‖²) over p = −3, …, 3.
    """

    weight: float = tuned(1.0, LogUniform(-1, 1), NOT_NEGATIVE, domainbed="mmd_gamma")
    """γ, of the distance between features."""

    title = "MMD"
    idea = "features"
    needs = "features"
    citation = "Li et al., Domain Generalization with Adversarial Feature Learning, CVPR 2018"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        features = ev.per_domain(ev.features)
        return Terms.penalised(ev.risk, self.weight, lambda: feature_mmd2(features))
