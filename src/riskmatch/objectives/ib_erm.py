"""Empirical risk minimisation with an information bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class IBERM(Objective):
    r"""Penalise the variance of the features within each domain, which bounds their entropy.

    .. math:: \frac1m \sum_e \Bigl[ \bar R_e + \lambda \operatorname*{mean}_k\,
              \operatorname*{Var}_{i \in e} f_{ik} \Bigr]

    with unbiased variances, so every domain needs two samples or more. Before ``warmup`` λ is 0;
    then a fresh optimiser starts.
    """

    weight: float = tuned(100.0, LogUniform(-1, 5), NOT_NEGATIVE, domainbed="ib_lambda")
    """λ, of the variance of the features."""
    warmup: int = tuned(
        500, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="ib_penalty_anneal_iters"
    )
    """Steps of ERM before the penalty is switched on."""

    title = "IB-ERM"
    idea = "features"
    domainbed: ClassVar[Mapping[str, Mapping[str, Any]]] = {"IB_ERM": {}}
    needs = "features"
    citation = (
        "Ahuja et al., Invariance Principle Meets Information Bottleneck for Out-of-Distribution "
        "Generalization, NeurIPS 2021"
    )

    @property
    def min_samples(self) -> int:
        """Two, for the variance of the features."""
        return 2

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser once the warm-up is over."""
        return base.after_warmup(step, self.warmup)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        weight = 0.0 if memory.step < self.warmup else self.weight
        return Terms.penalised(ev.risk, weight, lambda: feature_variance(ev))


def feature_variance(ev: Eval) -> Tensor:
    """() the variance of each feature within a domain, averaged over features and domains."""
    return torch.stack([part.var(0).mean() for part in ev.per_domain(ev.features)]).mean()
