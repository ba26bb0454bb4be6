"""Invariant risk minimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class IRM(Objective):
    r"""Penalise how much a common rescaling of the logits would lower the risk of a domain (IRMv1).

    .. math:: \frac1m \sum_e \bar R_e + \lambda\, \frac1m \sum_e g_e^{(0)} g_e^{(1)}, \qquad
              g = \operatorname*{mean}_i \partial_s\, r(s z_i, y_i) \big|_{s=1}

    with the two means over the even and the odd samples of a domain, which makes the product an
    unbiased estimate of the squared gradient; ``estimate="whole"`` takes the square of the mean
    over all samples. By the chain rule ∂r/∂s = z · ∂r/∂z, which is Σ p·z − z_y for cross-entropy.
    In halves, a domain with a single sample contributes nothing. Before ``warmup`` the weight λ is
    1; then a fresh optimiser starts.
    """

    weight: float = tuned(100.0, LogUniform(-1, 5), NOT_NEGATIVE, domainbed="irm_lambda")
    """λ, of the squared gradients."""
    warmup: int = tuned(
        500, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="irm_penalty_anneal_iters"
    )
    """Steps of weight 1 before λ applies."""
    estimate: Literal["halves", "whole"] = "halves"
    """How the squared gradient is estimated: from two halves of a domain, or from all of it."""

    title = "IRM"
    idea = "gradients"
    variants = ("estimate",)
    variant_titles: ClassVar[Mapping[str, str]] = {"whole": "IRM (whole domains)"}
    needs = "logits"
    citation = "Arjovsky et al., Invariant Risk Minimization, arXiv 2019"

    @property
    def min_samples(self) -> int:
        """One for each half."""
        return 2 if self.estimate == "halves" else 1

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser once the warm-up is over."""
        return base.after_warmup(step, self.warmup)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        weight = 1.0 if memory.step < self.warmup else self.weight
        return Terms.penalised(ev.risk, weight, lambda: invariance_penalty(ev, self.estimate))


def invariance_penalty(ev: Eval, estimate: Literal["halves", "whole"] = "halves") -> Tensor:
    """() the squared gradient of the scale of the logits, averaged over the domains."""
    slopes = ev.per_domain((ev.residuals * ev.logits.reshape_as(ev.residuals)).sum(1))  # (n_e,)
    if estimate == "whole":
        return torch.stack([part.mean().square() for part in slopes]).mean()
    halves = [(part[::2].mean(), part[1::2].sum() / max(1, len(part) // 2)) for part in slopes]
    return torch.stack([even * odd for even, odd in halves]).mean()
