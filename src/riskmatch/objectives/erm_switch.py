"""Empirical risk minimisation with the switch of the optimiser that RDM has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.objectives.rdm import RDM
from riskmatch.space import Tuned


def _as_in_rdm(name: str) -> Any:
    (item,) = (item for item in fields(RDM) if item.name == name)
    return field(default=item.default, metadata=item.metadata)


@dataclass(frozen=True)
class ERMSwitch(Objective):
    r"""The mean of the domain risks, with a fresh optimiser at ``lr_after`` after ``warmup`` steps.

    .. math:: \frac1m \sum_{e=1}^m \bar R_e

    RDM without its penalties: a control that tells how much of RDM's effect is that of its
    learning rates. Defaults and ranges are RDM's.
    """

    warmup: int = _as_in_rdm("warmup")
    """Steps before the switch."""
    lr_after: float = _as_in_rdm("lr_after")
    """Learning rate after the switch."""

    title = "ERM with RDM's switch"
    idea = "risks"
    plain = True
    citation = "Vapnik, An overview of statistical learning theory, IEEE TNN 1999"
    training: ClassVar[Mapping[str, Tuned]] = RDM.training

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser at ``lr_after`` once the warm-up is over."""
        return base.after_warmup(step, self.warmup, lr=self.lr_after)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms({"risk": ev.risk})
