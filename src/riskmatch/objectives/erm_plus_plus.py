"""ERM with the practices that matter most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, LogUniform, bounded, tuned


@dataclass(frozen=True)
class ERMPlusPlus(Objective):
    r"""ERM that starts at the classifier, learns its schedule, and predicts with mean weights.

    .. math:: \frac1m \sum_{e=1}^m \bar R_e, \qquad
              \bar\theta_t = \frac{1}{t - a + 1} \sum_{s=a}^{t} \theta_s

    In the steps 0 to ``warmup`` the classifier alone is stepped, at ``linear_lr``, then a fresh
    optimiser steps all weights. What is evaluated after t ≥ a steps, and shipped, are the mean
    weights, with statistics of batch normalisation of their own.

    By default its runs have the schedule ``plateau``, which lowers the learning rate where the
    validation risk of these weights stays, and ``retrain``, which repeats the run on all samples
    of the training domains. DomainBed has the optimiser LARS as an option; here it is Adam.
    """

    warmup: int = bounded(500, NOT_NEGATIVE, domainbed="linear_steps")
    """Last step of the classifier alone."""
    linear_lr: float = tuned(5e-5, LogUniform(-5, -3.5), POSITIVE)
    """Learning rate of the classifier until then."""
    average_from: int = bounded(599, NOT_NEGATIVE)
    """a, the number of steps after which weights enter the mean."""

    title = "ERM++"
    idea = "weights"
    needs = "features"
    citation = "Teterwak et al., ERM++: An Improved Baseline for Domain Generalization, WACV 2025"
    domainbed: ClassVar[Mapping[str, Mapping[str, Any]]] = {"ERMPlusPlus": {}}
    domainbed_hparams: ClassVar[Mapping[str, str]] = {"lars": "there is no LARS: --optim"}

    @property
    def averages_from(self) -> int | None:
        """Steps after which weights enter the mean that is evaluated."""
        return self.average_from

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimiser of the classifier, then that of the network."""
        if step <= self.warmup:
            return {"classifier": replace(base, lr=self.linear_lr)}
        return {"network": base.after_warmup(step, self.warmup)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms({"risk": ev.risk})
