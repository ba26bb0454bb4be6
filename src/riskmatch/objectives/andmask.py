"""Gradients where the domains agree on the sign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import Interval, Uniform, tuned


@dataclass(frozen=True)
class ANDMask(Objective):
    r"""Step along the mean gradient where the gradients of the domains agree in sign.

    .. math:: g = \frac{m \odot \bar g}{\operatorname{mean}(m)}, \qquad
              m = \Bigl[ \bigl\lvert \operatorname*{mean}_e\, \operatorname{sign} g_e \bigr\rvert
              \ge \tau \Bigr], \qquad g_e = \nabla \bar R_e

    for each tensor of weights. Where no entry agrees, weight decay and momentum alone act. The raw
    value ``mask`` is the share of all weights with a gradient.
    """

    tau: float = tuned(1.0, Uniform(0.5, 1.0), Interval(0, 1))
    """τ, the agreement that is asked for; 1 asks for the same sign in all domains."""

    title = "ANDMask"
    idea = "gradients"
    needs = "gradients"
    citation = "Parascandolo et al., Learning Explanations that Are Hard to Vary, ICLR 2021"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""

        def mask(gradients: Tensor) -> Tensor:
            return (gradients.sign().mean(0).abs() >= self.tau).to(gradients)

        return masked_terms(ev, mask)


def masked_terms(ev: Eval, mask_of: Callable[[Tensor], Tensor]) -> Terms:
    """The mean risk, with the mean gradient times a mask, rescaled by the mean of the mask.

    Args:
        ev: the network on a batch.
        mask_of: maps the gradients (m, …) of a tensor of weights to its mask (…).
    """
    by_domain = [ev.grad(risk) for risk in ev.domain_risks]
    gradient, masks = dict[str, Tensor](), list[Tensor]()
    for name in ev.params:
        gradients = torch.stack([each[name] for each in by_domain])  # (m, …)
        mask = mask_of(gradients)
        gradient[name] = mask * gradients.mean(0) / (mask.mean() + 1e-10)
        masks.append(mask.flatten())
    risk = ev.risk.detach() + ev.surrogate(gradient)
    return Terms({"risk": risk}, raw={"mask": torch.cat(masks).mean()})
