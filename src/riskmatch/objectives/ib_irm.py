"""Invariant risk minimisation with an information bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.objectives.ib_erm import feature_variance
from riskmatch.objectives.irm import invariance_penalty
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class IBIRM(Objective):
    r"""IRM's penalty on the rescaling of logits, and IB-ERM's on the variance of features.

    .. math:: \frac1m \sum_e \Bigl[ \bar R_e + \lambda\, g_e^{(0)} g_e^{(1)}
              + \gamma \operatorname*{mean}_k\, \operatorname*{Var}_{i \in e} f_{ik} \Bigr]

    with g the gradients of IRM, from the even and the odd samples. Before ``warmup`` λ is 1, before
    ``variance_warmup`` γ is 0; a fresh optimiser starts at each of the two steps.
    """

    weight: float = tuned(100.0, LogUniform(-1, 5), NOT_NEGATIVE, domainbed="irm_lambda")
    """λ, of the squared gradients."""
    warmup: int = tuned(
        500, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="irm_penalty_anneal_iters"
    )
    """Steps of weight 1 before λ applies."""
    variance_weight: float = tuned(100.0, LogUniform(-1, 5), NOT_NEGATIVE, domainbed="ib_lambda")
    """γ, of the variance of the features."""
    variance_warmup: int = tuned(
        500, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="ib_penalty_anneal_iters"
    )
    """Steps before the variance is penalised."""

    title = "IB-IRM"
    idea = "gradients"
    domainbed: ClassVar[Mapping[str, Mapping[str, Any]]] = {"IB_IRM": {}}
    needs = "features"
    citation = (
        "Ahuja et al., Invariance Principle Meets Information Bottleneck for Out-of-Distribution "
        "Generalization, NeurIPS 2021"
    )

    @property
    def min_samples(self) -> int:
        """Two, for the variance of the features and one for each half."""
        return 2

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser at the end of each warm-up."""
        ended = (step >= self.warmup) + (step >= self.variance_warmup)
        return replace(base, generation=ended) if ended else base

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        weight = 1.0 if memory.step < self.warmup else self.weight
        bottleneck = 0.0 if memory.step < self.variance_warmup else self.variance_weight
        first = Terms.penalised(ev.risk, weight, lambda: invariance_penalty(ev))
        second = Terms.penalised(ev.risk, bottleneck, lambda: feature_variance(ev), "variance")
        return Terms({**first.parts, **second.parts}, {**first.raw, **second.raw})
