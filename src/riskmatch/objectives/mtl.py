"""Marginal transfer learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, Objective, Shape, Terms
from riskmatch.space import Choice, Interval, tuned


class Marginal(nn.Linear):
    """The part of a linear classifier that reads the embedding of a domain (m, d) → (m, c)."""

    mean: Tensor

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__(features, outputs, bias=False)
        self.register_buffer("mean", torch.zeros(features))


@dataclass(frozen=True)
class MTL(Objective):
    r"""Tell the classifier the domain: a moving average of the mean features of its samples.

    .. math:: \sum_e \operatorname*{mean}_{i \in e} r(z_i + V \mu_e,\, y_i), \qquad
              \mu_e \leftarrow \rho \operatorname*{mean}_{i \in e} f_i + (1 - \rho)\, \mu_e

    A linear classifier of features beside an embedding is the sum z + V μ of one of each. The
    embeddings start at 0 and are kept by the name of the domain; the batch's part of them has a
    gradient. The trained model predicts with the mean of the embeddings of the training domains, so
    that a prediction does not depend on other inputs.
    """

    ema: float = tuned(0.99, Choice((0.5, 0.9, 0.99, 1.0)), Interval(0, 1), domainbed="mtl_ema")
    """ρ, the weight of the current batch in the moving average."""

    title = "MTL"
    idea = "features"
    needs = "features"
    citation = "Blanchard et al., Domain Generalization by Marginal Transfer Learning, JMLR 2021"

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The weights V."""
        return {"marginal": Marginal(shape.features, shape.outputs)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        names = ev.batch.names
        means = torch.stack([part.mean(0) for part in ev.per_domain(ev.features)])  # (m, d)
        before = memory.recall_domains("embedding", names, torch.zeros_like(means))
        embeddings = self.ema * means + (1 - self.ema) * before
        memory.keep_domains("embedding", names, embeddings)
        shifts = ev.modules["marginal"](embeddings)[ev.batch.domains]  # (n, c)
        risks = ev.domain_means(ev.risks_of(ev.logits + shifts))
        return Terms({"sum of risks": risks.sum()}, raw={"risk": risks.mean()})

    def after_turn(self, modules: Mapping[str, nn.Module], memory: Memory) -> None:
        """Keep the mean embedding, which the trained model needs."""
        marginal, known = modules["marginal"], memory.domains("embedding")
        assert isinstance(marginal, Marginal)
        rows = torch.stack([memory.state[f"embedding/{name}"] for name in known])
        marginal.mean.copy_(rows.mean(0))

    def predict(self, ev: Eval) -> Tensor:
        """(n, c) the outputs with the mean embedding."""
        marginal = ev.modules["marginal"]
        shift: Tensor = marginal(marginal.mean)
        return ev.logits + shift
