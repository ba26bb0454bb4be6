"""A method: minimise the mean of the largest risks of each domain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import Uniform, tuned


@dataclass(frozen=True)
class TopRisk(Objective):
    r"""The mean over the domains of the conditional value at risk.

    .. math:: \frac1m \sum_e \frac{1}{k_e} \sum_{i \in \text{top}_{k_e}} r_i, \qquad
              k_e = \lceil \alpha\, n_e \rceil
    """

    alpha: float = tuned(0.5, Uniform(0.2, 1.0))
    """α, the share of each domain's samples that counts, those with the largest risks."""

    citation = "Rockafellar and Uryasev, Optimization of conditional value-at-risk, J. Risk 2000"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        tops = [
            part.topk(math.ceil(self.alpha * len(part))).values.mean()
            for part in ev.per_domain(ev.risks)
        ]
        return Terms({"top risk": torch.stack(tops).mean()}, raw={"risk": ev.risk})
