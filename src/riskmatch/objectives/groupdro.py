"""Distributionally robust optimisation over the domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import LogUniform, tuned


@dataclass(frozen=True)
class GroupDRO(Objective):
    r"""Weigh the domains by exponentiated gradient ascent on their risks.

    .. math:: \sum_e q_e \bar R_e, \qquad q_e \propto q_e^{\text{before}} \exp(\eta \bar R_e)

    The weights q start equal and are kept from step to step.
    """

    eta: float = tuned(1e-2, LogUniform(-3, -1))
    """η, the step size of the weights."""

    citation = "Sagawa et al., Distributionally Robust Neural Networks for Group Shifts, ICLR 2020"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        risks = ev.domain_risks
        grown = memory.recall("q", torch.ones_like(risks)) * (self.eta * risks.detach()).exp()
        memory.state["q"] = q = (grown / grown.sum()).detach()
        return Terms({"weighted risk": q @ risks}, raw={"risk": ev.risk})
