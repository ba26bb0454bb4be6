"""Distributionally robust optimisation over the domains."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn.functional import pad

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned


@dataclass(frozen=True)
class GroupDRO(Objective):
    r"""Weigh the domains by exponentiated gradient ascent on their risks.

    .. math:: \sum_e q_e \bar R_e, \qquad q_e \propto q_e^{\text{before}} \exp(\eta \bar R_e)

    The weights q start equal and are kept from step to step, by the names of the domains. A domain
    that a batch lacks keeps its weight, apart from the normalisation; one that appears later starts
    with the mean weight.
    """

    eta: float = tuned(1e-2, LogUniform(-3, -1), NOT_NEGATIVE, domainbed="groupdro_eta")
    """η, the step size of the weights."""

    title = "GroupDRO"
    idea = "risks"
    citation = "Sagawa et al., Distributionally Robust Neural Networks for Group Shifts, ICLR 2020"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        risks, known = ev.domain_risks, memory.domains("q")
        domains = [*ev.batch.names, *(name for name in known if name not in ev.batch.names)]
        initial = risks.new_full((len(domains),), 1 / max(1, len(known)))
        gains = pad(self.eta * risks.detach(), (0, len(domains) - len(risks)))
        grown = memory.recall_domains("q", domains, initial) * gains.exp()
        q = (grown / grown.sum()).detach()
        memory.keep_domains("q", domains, q)
        return Terms({"weighted risk": q[: len(risks)] @ risks}, raw={"risk": ev.risk})
