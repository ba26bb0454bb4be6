"""Linear probing, then fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, LogUniform, tuned


@dataclass(frozen=True)
class LPFT(Objective):
    r"""Train the classifier on the features of the start, then the whole network.

    .. math:: \frac1m \sum_{e=1}^m \bar R_e

    at every step; for ``warmup`` steps the classifier alone is stepped, at ``probe_lr``, then a
    fresh optimiser steps all weights at the learning rate of the run. A classifier that fits the
    features of pretraining leaves fine-tuning less reason to distort them.
    """

    warmup: int = tuned(500, LogUniform(2, 3.5, integer=True), NOT_NEGATIVE)
    """Steps of the classifier alone."""
    probe_lr: float = tuned(1e-3, LogUniform(-4, -2), POSITIVE)
    """Learning rate of these steps."""

    title = "LP-FT"
    idea = "weights"
    needs = "features"
    citation = (
        "Kumar et al., Fine-Tuning can Distort Pretrained Features and Underperform "
        "Out-of-Distribution, ICLR 2022"
    )

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimiser of the classifier, then that of the network."""
        if step < self.warmup:
            return {"classifier": replace(base, lr=self.probe_lr)}
        return {"network": base.after_warmup(step, self.warmup)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms({"risk": ev.risk})
