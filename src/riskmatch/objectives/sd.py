"""Spectral decoupling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class SD(Objective):
    r"""Penalise large logits, so that the features learnt first do not starve the others.

    .. math:: \frac1m \sum_e \Bigl[ \bar R_e
              + \lambda \operatorname*{mean}_{i \in e,\, c}\, z_{ic}^2 \Bigr]

    with z the logits. The paper has half their sum over the classes in place of the mean.
    """

    weight: float = tuned(0.1, LogUniform(-5, -1), NOT_NEGATIVE, domainbed="sd_reg")
    """λ, of the squared logits."""

    title = "SD"
    idea = "gradients"
    needs = "logits"
    citation = (
        "Pezeshki et al., Gradient Starvation: A Learning Proclivity in Neural Networks, "
        "NeurIPS 2021"
    )

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: _squared_logits(ev))


def _squared_logits(ev: Eval) -> Tensor:
    return ev.domain_means(ev.logits.reshape(len(ev.logits), -1).square().mean(1)).mean()
