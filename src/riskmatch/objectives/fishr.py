"""Invariance of the variances of gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, Interval, LogUniform, Uniform, tuned


@dataclass(frozen=True)
class Fishr(Objective):
    r"""Match the domains' variances of the per-sample gradients of the linear classifier.

    .. math:: \frac1m \sum_e \bar R_e + \lambda\, \frac1m \sum_e
              \operatorname{mean}\,(v_e - \bar v)^2, \qquad
              v_e \leftarrow \rho\, v_e + \operatorname*{Var}_{i \in e}
              \bigl[ \partial_z r_i \otimes (f_i, 1) \bigr]

    The gradient of sample i by weights and bias is the outer product of ∂r/∂z (p − y for
    cross-entropy) with its features and 1. Its variance E[g²] − E[g]² takes two matrix products and
    no tensor of per-sample gradients. v is a moving average of rate ρ, divided by 1 − ρ so that the
    size of its gradient does not depend on ρ. It starts at 0 and is kept by the name of the domain;
    a step updates and compares the domains of its batch. Before ``warmup`` the averages run and λ
    is 0; then a fresh optimiser starts.
    """

    weight: float = tuned(1000.0, LogUniform(1, 4), NOT_NEGATIVE, domainbed="lambda")
    """λ, of the spread of the variances."""
    warmup: int = tuned(
        1500, Uniform(0, 5000, integer=True), NOT_NEGATIVE, domainbed="penalty_anneal_iters"
    )
    """Steps of ERM before the penalty is switched on."""
    ema: float = tuned(0.95, Uniform(0.90, 0.99), Interval(0, 1, "left"))
    """ρ, what the moving averages keep at each step."""

    title = "Fishr"
    idea = "gradients"
    needs = "features"
    citation = (
        "Rame et al., Fishr: Invariant Gradient Variances for Out-of-Distribution Generalization, "
        "ICML 2022"
    )

    @property
    def min_samples(self) -> int:
        """Two, for the variance of the gradients."""
        return 2

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser once the warm-up is over."""
        return base.after_warmup(step, self.warmup)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        terms = Terms.penalised(ev.risk, self.weight, lambda: self._penalty(ev, memory))
        warming_up = memory.step < self.warmup
        return Terms({"risk": ev.risk}, terms.raw) if warming_up else terms

    def _penalty(self, ev: Eval, memory: Memory) -> Tensor:
        pairs = zip(ev.per_domain(ev.residuals), ev.per_domain(ev.features), strict=True)
        current = torch.stack([_variances(*pair) for pair in pairs])  # (m, c, d + 1)
        names, start = ev.batch.names, torch.zeros_like(current)
        average = self.ema * memory.recall_domains("variances", names, start) + current
        memory.keep_domains("variances", names, average)
        return average.var(0, correction=0).mean()


def _variances(residuals: Tensor, features: Tensor) -> Tensor:
    inputs = torch.cat([features, torch.ones_like(features[:, :1])], 1)  # (n, d + 1)
    second = residuals.square().T @ inputs.square() / len(inputs)
    return second - (residuals.T @ inputs / len(inputs)).square()
