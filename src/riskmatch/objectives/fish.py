"""Gradient matching by a walk through the domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms, adam_step
from riskmatch.space import POSITIVE, Choice, tuned


@dataclass(frozen=True)
class Fish(Objective):
    r"""Step towards where Adam arrives when it visits the domains one after the other.

    .. math:: \theta \leftarrow \theta + \epsilon\, (\tilde\theta - \theta), \qquad
              \tilde\theta = \mathrm{Adam}_m \circ \dots \circ \mathrm{Adam}_1 (\theta)

    with Adam_e a step on the risk of domain e at the configured learning rate and weight decay;
    its moments are kept from step to step. The outer step is gradient descent at rate ε on the
    surrogate Σ θ · stopgrad(θ − θ̃), whose gradient is θ − θ̃; the value reported is the mean of the
    risks met on the way.
    """

    meta_lr: float = tuned(0.5, Choice((0.05, 0.1, 0.5)), POSITIVE)
    """ε, the share of the walk that is kept."""

    title = "Fish"
    idea = "gradients"
    needs = "other weights"
    citation = "Shi et al., Gradient Matching for Domain Generalization, ICLR 2022"

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """Plain gradient descent at rate ε."""
        return OptimSpec("sgd", lr=self.meta_lr, weight_decay=0.0)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        ev.observe()
        weights, risks = ev.params, []
        for part in ev.split():
            view = part.at(weights)
            gradient = view.grad(view.risk)
            weights, moments = adam_step(weights, gradient, memory.base, memory.state)
            memory.state.update(moments)
            risks.append(view.risk.detach())
        surrogate = ev.surrogate({name: theta - weights[name] for name, theta in ev.params.items()})
        return Terms({"risk": torch.stack(risks).mean() + surrogate})
