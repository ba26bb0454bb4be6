"""The engine: trains a network with an objective, and runs from their configuration."""

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.data.domain import Batch
from riskmatch.engine.data_identity import DataChangedError
from riskmatch.engine.instances import InstanceError, Instances
from riskmatch.engine.load import Run, load_run
from riskmatch.engine.loop import Progress
from riskmatch.engine.run import UnfinishedError
from riskmatch.engine.step import DivergedError, Stepper, StepSettings, fit
from riskmatch.runs.lock import BusyError

__all__ = [
    "Batch",
    "BusyError",
    "DataChangedError",
    "DivergedError",
    "Eval",
    "InstanceError",
    "Instances",
    "Memory",
    "Objective",
    "OptimSpec",
    "Progress",
    "Run",
    "StepSettings",
    "Stepper",
    "Terms",
    "UnfinishedError",
    "fit",
    "load_run",
]
