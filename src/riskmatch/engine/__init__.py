"""The engine: how an objective becomes steps, and steps a run."""

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.data.batch import Batch
from riskmatch.engine.data_identity import DataChangedError
from riskmatch.engine.fit import fit
from riskmatch.engine.run import Progress, UnfinishedError, train
from riskmatch.engine.step import DivergedError, Stepper, StepSettings
from riskmatch.runs.lock import BusyError

__all__ = [
    "Batch",
    "BusyError",
    "DataChangedError",
    "DivergedError",
    "Eval",
    "Memory",
    "Objective",
    "OptimSpec",
    "Progress",
    "StepSettings",
    "Stepper",
    "Terms",
    "UnfinishedError",
    "fit",
    "train",
]
