"""Risk extrapolation by the variance of risks."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class VREx(Objective):
    r"""Penalise the variance of the domain risks.

    .. math:: \bar R + \lambda\, \frac1m \sum_{e=1}^m (\bar R_e - \bar R)^2, \qquad
              \bar R = \frac1m \sum_e \bar R_e

    Before ``warmup`` the weight λ is 1; then a fresh optimiser starts.
    """

    weight: float = tuned(10.0, LogUniform(-1, 5), NOT_NEGATIVE, domainbed="vrex_lambda")
    """λ, of the variance."""
    warmup: int = tuned(
        500, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="vrex_penalty_anneal_iters"
    )
    """Steps of weight 1 before λ applies."""

    title = "VREx"
    idea = "risks"
    citation = (
        "Krueger et al., Out-of-Distribution Generalization via Risk Extrapolation (REx), ICML 2021"
    )

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser once the warm-up is over."""
        return base.after_warmup(step, self.warmup)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        weight = 1.0 if memory.step < self.warmup else self.weight
        return Terms.penalised(ev.risk, weight, lambda: ev.domain_risks.var(correction=0))
