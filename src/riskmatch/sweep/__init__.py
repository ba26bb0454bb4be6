"""Many runs planned together, and the launchers that train them."""

from riskmatch.sweep.board import Board, RunOutcome, SweepStatus
from riskmatch.sweep.launchers import LAUNCHERS, Launcher, Local, Ray, Slurm, run_all
from riskmatch.sweep.plan import PlannedRun, Protocol, sweep_settings
from riskmatch.sweep.run import (
    SweepPlan,
    plan_sweep,
    run_sweep,
    sweep_cost,
    sweep_status,
)
from riskmatch.sweep.worker import StepReport, SweepSettings, Worker

__all__ = [
    "LAUNCHERS",
    "Board",
    "Launcher",
    "Local",
    "PlannedRun",
    "Protocol",
    "Ray",
    "RunOutcome",
    "Slurm",
    "StepReport",
    "SweepPlan",
    "SweepSettings",
    "SweepStatus",
    "Worker",
    "plan_sweep",
    "run_all",
    "run_sweep",
    "sweep_cost",
    "sweep_settings",
    "sweep_status",
]
