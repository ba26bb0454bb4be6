"""Meta-learning for domain generalisation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms, adam_step
from riskmatch.space import NOT_NEGATIVE, Choice, Interval, LogUniform, tuned


@dataclass(frozen=True)
class MLDG(Objective):
    r"""Make a step on one domain also help another domain (first order).

    .. math:: \frac1m \sum_{(i,j)} \bigl[ \bar R_i(\theta) + \beta\, \bar R_j(\theta_i) \bigr],
              \qquad \theta_i = \mathrm{Adam}(\theta, \nabla \bar R_i(\theta))

    ``meta_test`` domains, drawn anew at every step, are held out; each of the others is paired with
    one of them in turn. θ_i is one step of a fresh Adam from θ, and its derivative by θ is taken
    for the identity. With a single domain the method is ERM.
    """

    beta: float = tuned(1.0, LogUniform(-1, 1), NOT_NEGATIVE, domainbed="mldg_beta")
    """β, of the risk after the step."""
    meta_test: int = tuned(2, Choice((1, 2)), Interval(1), domainbed="n_meta_test")
    """How many domains are held out; 2 is 1 where there are two training domains."""

    title = "MLDG"
    idea = "weights"
    needs = "other weights"
    citation = (
        "Li et al., Learning to Generalize: Meta-Learning for Domain Generalization, AAAI 2018"
    )

    @property
    def min_domains(self) -> int:
        """One more than are held out; the values that are searched fit any number."""
        return self.meta_test + 1 if self.meta_test > 2 else 1

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        parts = ev.split()
        held_out = min(self.meta_test, len(parts) - 1)
        if not held_out:
            return Terms({"risk": ev.risk})
        ev.observe()
        order = torch.randperm(len(parts), generator=memory.generator).tolist()
        trained = [parts[i].at(ev.params) for i in order[:-held_out]]
        tested = [parts[j] for j in order[-held_out:]]
        risk = torch.stack([view.risk for view in trained]).sum() / len(parts)

        def after_steps() -> Tensor:
            pairs = zip(trained, cycle(tested), strict=False)
            risks = [_risk_after_step(view, other, memory.base) for view, other in pairs]
            return torch.stack(risks).sum() / len(parts)

        return Terms.penalised(risk, self.beta, after_steps, name="meta-test")


def _risk_after_step(view: Eval, other: Eval, spec: OptimSpec) -> Tensor:
    inner, _ = adam_step(view.params, view.grad(view.risk), spec, {})
    # The value of the inner weights with the derivative of the outer ones.
    weights = {
        name: inner[name].detach() + (theta - theta.detach()) for name, theta in view.params.items()
    }
    return other.at(weights).risk
