"""Launcher base class, and the job-queue loop of launchers such as Ray."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.runs.config import RunConfig
from riskmatch.space import check_valid
from riskmatch.sweep.board import Board, OnChange, RunOutcome
from riskmatch.sweep.worker import SweepSettings

POLL_SECONDS = 0.5
"""Seconds between two checks of runs that other processes train."""


@dataclass(frozen=True)
class Launcher(ABC):
    """Trains the runs of a board.

    Example:
        A launcher that trains one run after another in this process::

            @dataclass(frozen=True)
            class Sequential(Launcher):
                device: str = "cpu"

                def launch(self, board, settings, on_change, on_progress=None):
                    worker = Worker(settings, self.device)
                    while board.unfinished and not board.interrupted:
                        on_change(board)
                        run = board.start_next()
                        if run is None:  # other processes train the rest
                            time.sleep(1)
                        else:
                            board.close(run, worker.train(run, lambda report: None))
                    on_change(board)
    """

    def __post_init__(self) -> None:
        check_valid(self)

    @abstractmethod
    def launch(
        self,
        board: Board,
        settings: SweepSettings,
        on_change: OnChange,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train every waiting run and report to the board, until none is unfinished.

        A run is taken with ``board.start_next()``, trained with ``Worker.train`` in any process on
        any machine that shares the folder of the records, and closed with ``board.close``. A run
        that fails, or whose process dies (see :func:`~riskmatch.sweep.worker.record_failure`),
        does not stop the others. On ``KeyboardInterrupt``, which ``on_change`` may raise, training
        processes write a checkpoint and end; then it may propagate.

        Args:
            board: runs to train and their state; ``board.jobs`` is for the launcher to set.
            settings: folder of the records and what else all runs have in common.
            on_change: called before the first run, during runs and after every run.
            on_progress: called while data sets are loaded.
        """


@dataclass
class Jobs(ABC):
    """Runs that were submitted to an engine such as Ray or Slurm."""

    submitted: dict[Any, RunConfig] = field(default_factory=dict, init=False)
    """Runs that have not ended, by what the engine calls their jobs."""

    @abstractmethod
    def submit(self, runs: Sequence[RunConfig]) -> None:
        """Submit runs."""

    @abstractmethod
    def ended(self) -> Iterator[tuple[RunConfig, RunOutcome]]:
        """Wait a moment; then remove from ``submitted`` and yield the runs that have ended."""

    @abstractmethod
    def cancel(self) -> None:
        """Let runs that train write a checkpoint and end; drop those that have not started."""


def supervise(board: Board, jobs: Jobs, limit: Callable[[], int], on_change: OnChange) -> None:
    """Submit runs as they can start, at most ``limit()`` at a time, until none is unfinished.

    The progress of a run is read from its record. On ``KeyboardInterrupt``, or any error, jobs are
    cancelled first; if the engine itself is lost, a ``ChildProcessError``, they are not waited for.
    """
    try:
        while not board.interrupted:
            runs: list[RunConfig] = []
            board.jobs = max(1, min(limit(), board.total))
            while len(board.running) < board.jobs and (run := board.start_next()) is not None:
                runs.append(run)
            if runs:
                jobs.submit(runs)
            on_change(board)
            if not board.unfinished:
                return
            for run, outcome in jobs.ended():
                board.read_record(run)
                board.close(run, outcome)
            for run in board.running.values():
                board.read_record(run)
    except ChildProcessError:
        jobs.cancel()
        jobs.submitted.clear()
        raise
    finally:
        jobs.cancel()
        while jobs.submitted:
            for run, outcome in jobs.ended():
                board.close(run, outcome)
        for run in list(board.running.values()):  # was not submitted, or was dropped
            board.close(run, RunOutcome("interrupted"))


@contextmanager
def outside_current_folder() -> Iterator[None]:
    """Start processes in a folder without modules.

    Python and Ray would search the current folder before all others: a file ``select.py`` there
    would take the place of a module of Python.
    """
    folder, path = os.getcwd(), os.environ.get("PYTHONPATH")
    if path:  # its relative folders are those of the current one
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    os.chdir(sys.prefix)
    try:
        yield
    finally:
        os.chdir(folder)
        if path:
            os.environ["PYTHONPATH"] = path
