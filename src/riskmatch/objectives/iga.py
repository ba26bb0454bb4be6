"""Inter-domain gradient alignment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class IGA(Objective):
    r"""Penalise the spread of the domains' gradients around their mean.

    .. math:: \bar R + \lambda \sum_e \bigl\lVert \nabla \bar R_e
              - \operatorname{stopgrad}(\nabla \bar R) \bigr\rVert^2, \qquad
              \bar R = \frac1m \sum_e \bar R_e

    with gradients by all weights, which the penalty differentiates a second time.
    """

    weight: float = tuned(1000.0, LogUniform(1, 5), NOT_NEGATIVE, domainbed="penalty")
    """λ, of the spread."""

    title = "IGA"
    idea = "gradients"
    needs = "gradients"
    citation = (
        "Koyama and Yamaguchi, Out-of-Distribution Generalization with Maximal Invariant "
        "Predictor, arXiv 2020"
    )

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: _spread(ev))


def _spread(ev: Eval) -> Tensor:
    gradients = torch.stack(
        [
            torch.cat([part.flatten() for part in ev.grad(risk, create_graph=True).values()])
            for risk in ev.domain_risks
        ]
    )  # (m, number of weights)
    return (gradients - gradients.mean(0).detach()).square().sum()
