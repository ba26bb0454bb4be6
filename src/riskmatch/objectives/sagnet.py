"""Style-agnostic networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned

EPS = 1e-5


@dataclass(frozen=True)
class SagNet(Objective):
    r"""Classify by content, and make a classifier of styles useless.

    .. math:: \text{content:}\; \bar R\bigl(g(\hat f_i\, \tilde\sigma_i + \tilde\mu_i)\bigr), \quad
              \text{style:}\; \bar R\bigl(s(\hat f_j\, \sigma_i + \mu_i)\bigr), \quad
              \text{adversary:}\; -\lambda \operatorname*{mean}_{i,k}
              \log \operatorname{softmax}_k s(\hat f_j\, \sigma_i + \mu_i)

    Three turns in this order, of featurizer and classifier g, of the style classifier s, and of the
    featurizer. The style of a sample is the mean μ and variance σ² of its features, its content the
    standardised features, which are constants in the last two turns; j is a random permutation
    of the batch. The mixed style has the mean α μ_i + (1 − α) μ_j, α ~ U(0, 1), its variance too.
    """

    weight: float = tuned(0.1, LogUniform(-2, 1), NOT_NEGATIVE, domainbed="sag_w_adv")
    """λ, of the adversary."""

    title = "SagNet"
    idea = "adversarial"
    needs = "features"
    citation = "Nam et al., Reducing Domain Gap by Reducing Style Bias, CVPR 2021"

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The classifier s of styles."""
        return {"style": nn.Linear(shape.features, shape.outputs)}

    def turns(self, step: int) -> int:
        """Content, style and, unless its weight is 0, adversary."""
        return 3 if self.weight else 2

    def optim(self, base: OptimSpec, step: int, turn: int = 0) -> Mapping[str, OptimSpec]:
        """One optimiser of each part, so that the featurizer's takes two steps per batch."""
        names = ("featurizer", "classifier"), ("style",), ("featurizer",)
        return dict.fromkeys(names[turn], base)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one turn."""
        share, other = self.draw(len(ev.features), memory.generator)
        features = ev.features if memory.turn != 1 else ev.features.detach()
        share, other = share.to(features), other.to(features.device)
        mean, variance = features.mean(1, keepdim=True), features.var(1, keepdim=True)
        content = (features - mean) / (variance + EPS).sqrt()
        if memory.turn == 0:
            mean, variance = (share * v + (1 - share) * v[other] for v in (mean, variance))
            logits = ev.classify(content * (variance + EPS).sqrt() + mean)
            return Terms({"risk": self._mean(ev, ev.risks_of(logits))})
        logits = ev.modules["style"](content[other].detach() * (variance + EPS).sqrt() + mean)
        if memory.turn == 1:
            return Terms({"style risk": self._mean(ev, ev.risks_of(logits))})
        uniform = self._mean(ev, -logits.log_softmax(1).mean(1))
        return Terms({"adversary": self.weight * uniform}, raw={"adversary": uniform})

    def draw(self, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """α (n, 1) and the random permutation j (n,)."""
        share = torch.rand(samples, 1, generator=generator)
        return share, torch.randperm(samples, generator=generator)

    @staticmethod
    def _mean(ev: Eval, values: Tensor) -> Tensor:
        return ev.domain_means(values).mean()
