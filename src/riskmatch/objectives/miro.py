"""Mutual information regularisation with the network before the first step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, LogUniform, bounded, tuned

EPS, INITIAL = 1e-5, 0.1


class Variances(nn.Module):
    """A variance for each feature (d,), at first 0.1; it does not depend on the sample."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((features,), math.log(math.expm1(INITIAL - EPS))))

    def forward(self) -> Tensor:
        """(d,) the variances."""
        return softplus(self.bias) + EPS


@dataclass(frozen=True)
class MIRO(Objective):
    r"""Keep features from which those of the network before the first step can be told.

    .. math:: \bar R + \lambda \operatorname*{mean}_{e,\, i \in e,\, k} \frac12 \Bigl[
              \log \sigma_k^2 + \frac{(f^0_{ik} - \mu(f_i)_k)^2}{\sigma_k^2} \Bigr]

    with f⁰ the features of the same sample under the start's weights, in evaluation mode, so that
    the penalty is, but for a constant, a bound on the mutual information of the two. As in the
    paper, the encoder of the mean μ is the identity and that of the variance σ² a bias per feature,
    which learns at ``variance_lr`` times the learning rate. Features are those of the last layer.
    With λ = 0 it is ERM.
    """

    weight: float = tuned(0.1, LogUniform(-3, 0), NOT_NEGATIVE)
    """λ, of the penalty."""
    variance_lr: float = bounded(10.0, POSITIVE)
    """Factor of the learning rate of the variances."""

    title = "MIRO"
    idea = "features"
    needs = "features"
    needs_start = True
    citation = (
        "Cha et al., Domain Generalization by Mutual-Information Regularization with Pre-trained "
        "Models, ECCV 2022"
    )

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The encoder of the variance."""
        return {"variances": Variances(shape.features)}

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The network's optimiser, and a faster one of the variances."""
        return {"network": base, "variances": replace(base, lr=self.variance_lr * base.lr)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: self._penalty(ev))

    def _penalty(self, ev: Eval) -> Tensor:
        with torch.no_grad():
            before = ev.start.features
        variances = ev.modules["variances"]()
        bounds = (before - ev.features).square() / variances + variances.log()  # (n, d)
        return ev.domain_means(bounds.mean(1) / 2).mean()
