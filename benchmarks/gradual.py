"""RDM whose λ is raised gradually, as a method of one's own: benchmarks.gradual:GradualRDM."""

from __future__ import annotations

from dataclasses import dataclass, fields

from riskmatch.contract import Eval, Memory, Terms
from riskmatch.objectives import RDM


@dataclass(frozen=True)
class GradualRDM(RDM):
    """RDM with λ · min(1, (t − start) / ramp) at step t > start; steps count from 1.

    Example:
        >>> GradualRDM(weight=100.0, start=400, ramp=50).at(410).weight
        20.0
    """

    start: int = 400
    """Last step without a penalty."""
    ramp: int = 100
    """Steps until λ is reached."""

    def at(self, step: int) -> RDM:
        """RDM with the λ of a step."""
        share = min(1.0, max(0.0, (step - self.start) / self.ramp))
        own = {field.name: getattr(self, field.name) for field in fields(RDM)}
        return RDM(**{**own, "weight": self.weight * share})

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return self.at(memory.step + 1)(ev, memory)
