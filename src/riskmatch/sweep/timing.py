"""How long steps take, before any run has begun."""

from __future__ import annotations

import time

from riskmatch.data.progress import OnProgress
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.board import Board, kind_of
from riskmatch.sweep.worker import Bench, threads

ENOUGH = 0.1
"""Seconds of steps that tell their length."""
PATIENCE = 20.0
"""Seconds after which no further kind of run is timed; its steps then count like the others'."""


def time_steps(
    board: Board, bench: Bench, cores: int, on_progress: OnProgress | None = None
) -> None:
    """Tell the board what a step costs in each kind of run that waits and was never timed."""
    begun = time.monotonic()
    with threads(cores):
        for run in {kind_of(run): run for run in reversed(board.waiting)}.values():
            if time.monotonic() - begun > PATIENCE:
                return
            if not board.taken.get(kind_of(run)):
                try:
                    bench.domains(run, on_progress)
                    board.time(run, seconds_per_step(run, bench))
                except Exception:  # the run itself will fail of it, and say so
                    continue


def seconds_per_step(run: RunConfig, bench: Bench) -> float:
    """Of a step after any warm-up, with its share of an evaluation."""
    from riskmatch.engine.assemble import assemble
    from riskmatch.engine.evaluate import predict

    parts = assemble(run, bench.device, bench.data_dir, bench.domains(run))
    parts.stepper.memory.step = run.steps - 1
    parts.stepper.step(next(parts.sampler))  # the first step of a process takes longer
    begun, steps = time.monotonic(), 0
    while (spent := time.monotonic() - begun) < ENOUGH:
        parts.stepper.step(next(parts.sampler))
        steps += 1
    sizes = {
        name: sum(len(part) for part in splits.values()) for name, splits in parts.splits.items()
    }
    least = min(sizes, key=lambda name: sizes[name])
    begun = time.monotonic()
    predict(parts.stepper.model, {least: parts.splits[least]})
    evaluation = (time.monotonic() - begun) * sum(sizes.values()) / sizes[least]
    return spent / steps + evaluation / run.eval_every
