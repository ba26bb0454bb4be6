"""How far a sweep is, by what is on the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from riskmatch.runs.config import variant
from riskmatch.runs.lock import held
from riskmatch.sweep.board import Board
from riskmatch.sweep.plan import PlannedRun

State = Literal["done", "running", "failed", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "waiting")
PHASE = "(ERM phases)"
"""Stands for the runs that runs of the plan start from."""


@dataclass(frozen=True)
class Status:
    """A sweep at a moment."""

    counts: dict[str, Counter[State]]
    """How many runs are in each state, by method."""
    failed: dict[str, str]
    """Why, by id."""
    seconds_left: float | None
    """At as many runs at a time as there are now; None where no run has been evaluated yet."""

    @property
    def total(self) -> Counter[State]:
        """How many runs of all methods are in each state."""
        return sum(self.counts.values(), Counter())


def status_of(planned: Sequence[PlannedRun], out: Path) -> Status:
    """The status of the runs whose records are in ``out``."""
    board = Board.of([run.config for run in planned], out)
    running = {config.id for config in board.waiting if held(out / config.id)}
    board.jobs = max(1, len(running))
    states: dict[str, State] = dict.fromkeys(board.failed, "failed")
    states |= {config.id: "done" for config in board.done}
    for config in board.waiting:
        states[config.id] = "running" if config.id in running else "waiting"
    methods = {run.config.id: variant(run.config) for run in planned}
    counts = {method: Counter[State]() for method in sorted(set(methods.values()))}
    for id, state in states.items():
        counts.setdefault(methods.get(id, PHASE), Counter())[state] += 1
    return Status(counts, dict(board.failed), board.seconds_left)
