"""Gradients weighed by the agreement of the domains."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.objectives.andmask import masked_terms
from riskmatch.space import POSITIVE, Interval, LogUniform, Uniform, tuned


@dataclass(frozen=True)
class SANDMask(Objective):
    r"""ANDMask with a smooth mask, which closes where the gradients of the domains differ in size.

    .. math:: m = \max\Bigl(0, \tanh \frac{k}{\sigma^2} \bigl( \bigl\lvert
              \operatorname*{mean}_e\, \operatorname{sign} g_e \bigr\rvert - \tau \bigr) \Bigr),
              \qquad \sigma^2 = \operatorname*{Var}_e g_e

    with the unbiased variance over the domains, which is 0 for a single one. At τ = 1, the default
    of DomainBed, every mask is 0 and nothing is learnt.
    """

    tau: float = tuned(0.5, Uniform(0.0, 1.0), Interval(0, 1))
    """τ, the agreement of signs above which the mask opens."""
    slope: float = tuned(10.0, LogUniform(-3, 5), POSITIVE, domainbed="k")
    """k, how fast it opens."""

    title = "SANDMask"
    idea = "gradients"
    needs = "gradients"
    citation = (
        "Shahtalebi et al., SAND-mask: An Enhanced Gradient Masking Strategy for the Discovery of "
        "Invariances in Domain Generalization, arXiv 2021"
    )

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return masked_terms(ev, self._mask)

    def _mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(0).abs() - self.tau
        variance = gradients.var(0, correction=min(1, len(gradients) - 1))
        # 0 / 0 where there is neither variance nor agreement above τ.
        return (self.slope * agreement / variance).tanh().clamp(min=0).nan_to_num(0.0)
