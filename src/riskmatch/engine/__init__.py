"""The engine: how an objective becomes steps, and steps a run."""

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.data.batch import Batch
from riskmatch.engine.fit import fit
from riskmatch.engine.step import DivergedError, Stepper, StepSettings

__all__ = [
    "Batch",
    "DivergedError",
    "Eval",
    "Memory",
    "Objective",
    "OptimSpec",
    "StepSettings",
    "Stepper",
    "Terms",
    "fit",
]
