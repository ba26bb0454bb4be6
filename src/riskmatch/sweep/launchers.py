"""Launchers: where and how many at a time the runs of a sweep are trained.

A launcher is a frozen dataclass deriving from :class:`Launcher`; its fields are its options.
``riskmatch sweep run DIR --launcher package.module:Name`` uses one of your own, and
:mod:`riskmatch.testing.launchers` checks it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.registry import PartError, find
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.board import Board, OnChange, RunOutcome
from riskmatch.sweep.worker import (
    StepReport,
    SweepSettings,
    Worker,
    record_failure,
    serve_runs,
    torch_threads,
)
from riskmatch.validation import check_option

MEMORY_PER_RUN = 4 * 2**30
"""Bytes that a run of the paper's sizes may need."""
PRELOAD = ["riskmatch.engine", "torch._dynamo"]
"""Modules imported once for all worker processes; optimisers import the second, slowly."""
CHANGE_SECONDS = 10.0
"""Most seconds between two calls of ``on_change``, for progress without a step."""
POLL_SECONDS = 0.5
"""Seconds between two checks of the runs that other processes train."""


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


@dataclass(frozen=True)
class Local(Launcher):
    """Trains runs on this machine, in this process or in several worker processes."""

    jobs: int | None = None
    """Runs at a time; by default one per core, if memory allows, or one on a GPU."""
    device: str = "auto"
    """Device to train on: cpu, cuda:1, …; auto takes a GPU if there is one."""

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {self.jobs}.")

    def launch(
        self,
        board: Board,
        settings: SweepSettings,
        on_change: OnChange,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train every waiting run, dividing the cores among ``jobs`` processes."""
        from riskmatch.engine.device import resolve_device

        device = resolve_device(self.device)
        board.jobs = self.jobs_for(len(board.waiting), device)
        threads, worker = threads_per_job(board.jobs), Worker(settings, device)
        if board.jobs > 1:
            forkserver.set_forkserver_preload(PRELOAD)
            forkserver.ensure_running()  # imports while we time steps
        worker.time_groups(board, threads, on_progress)
        on_change(board)
        if board.jobs == 1:
            _launch_here(board, worker, threads, on_change)
        else:
            _launch_processes(board, settings, device, threads, on_change)

    def jobs_for(self, runs: int, device: str = "cpu") -> int:
        """Return how many of ``runs`` are trained at a time on ``device``."""
        jobs = self.jobs
        if jobs is None:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            jobs = min(_cores(), memory // MEMORY_PER_RUN) if device == "cpu" else 1
        return max(1, min(jobs, runs))


LAUNCHERS: dict[str, type[Launcher]] = {"local": Local}
"""Built-in launchers by name."""


def make_launcher(
    launcher: Launcher | str = "local", options: Mapping[str, Any] | None = None
) -> Launcher:
    """Return a launcher from its name, or the given one.

    Args:
        launcher: a built-in name, ``package.module:Name`` or a launcher.
        options: values of the fields of a named launcher.

    Example:
        >>> make_launcher("local", {"jobs": 2})
        Local(jobs=2, device='auto')
    """
    if isinstance(launcher, Launcher):
        return launcher
    cls = launcher_class(launcher)
    names = [item.name for item in fields(cls)]
    for name in options or {}:
        check_option(f"option of the launcher {launcher}", name, names)
    return cls(**options or {})


def launcher_class(name: str) -> type[Launcher]:
    """Return the launcher class of a name.

    Raises:
        PartError: there is no such launcher, it cannot be imported, or it is not a launcher.
    """
    value = find("launcher", name).value
    if not (isinstance(value, type) and issubclass(value, Launcher)):
        raise PartError(f"{name} is not a launcher: derive it from riskmatch.sweep.Launcher.")
    if "__dataclass_fields__" not in vars(value):
        raise PartError(f"The launcher {name} must be decorated with @dataclass(frozen=True).")
    return value


def threads_per_job(jobs: int) -> int:
    """Return the torch threads of each of ``jobs`` processes, at most those torch uses now."""
    import torch

    return max(1, min(torch.get_num_threads(), _cores() // jobs))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _launch_here(board: Board, worker: Worker, threads: int, on_change: OnChange) -> None:
    """Train one run after another in this process."""
    with torch_threads(threads):
        while not board.interrupted:
            run = board.start_next()
            if run is not None:

                def report(progress: StepReport, run: RunConfig = run) -> None:
                    board.report_step(run, *progress)
                    on_change(board)

                board.close(run, worker.train(run, report))
            elif board.external:
                time.sleep(POLL_SECONDS)
            on_change(board)
            if not board.unfinished:
                return


@dataclass
class _WorkerProcess:
    """A worker process and the run that it trains."""

    process: BaseProcess
    pipe: Connection
    run: RunConfig | None = None

    @classmethod
    def start(cls, settings: SweepSettings, device: str, threads: int) -> _WorkerProcess:
        context = multiprocessing.get_context("forkserver")
        for _ in range(3):
            parent, child = context.Pipe()
            arguments = (child, Worker(settings, device), threads)
            process = context.Process(target=serve_runs, args=arguments, daemon=True)
            try:
                process.start()
            except (EOFError, ConnectionError) as error:  # the next try starts another helper
                cause = error
                time.sleep(POLL_SECONDS)
                continue
            child.close()
            return cls(process, parent)
        raise RuntimeError(
            "The helper process that starts workers (Python's forkserver) was killed. If "
            "memory ran out, use fewer jobs; repeat the command to continue"
        ) from cause

    def receive(self, board: Board, out: Path) -> None:
        """Handle one message, or the death of the process, with which its run fails."""
        assert self.run is not None
        message: StepReport | RunOutcome
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            hint = "; if memory ran out, use fewer jobs" if code == -signal.SIGKILL else ""
            cause = f"the worker process died with exit code {code}{hint}"
            message = record_failure(out, self.run, cause)
        if isinstance(message, StepReport):
            board.report_step(self.run, *message)
        else:
            board.close(self.run, message)
            self.run = None


def _launch_processes(
    board: Board, settings: SweepSettings, device: str, threads: int, on_change: OnChange
) -> None:
    """Give runs to worker processes as they become free; a dead process is replaced."""
    workers = [_WorkerProcess.start(settings, device, threads) for _ in range(board.jobs)]
    try:
        while not board.interrupted:
            for k, worker in enumerate(workers):
                if worker.run is None and not worker.process.is_alive():
                    workers[k] = worker = _WorkerProcess.start(settings, device, threads)
                if worker.run is None and (run := board.start_next()) is not None:
                    worker.run = run
                    worker.pipe.send(run)
            on_change(board)
            if not board.unfinished:
                return
            busy = [worker for worker in workers if worker.run is not None]
            timeout = POLL_SECONDS if board.external else CHANGE_SECONDS
            ready = wait([worker.pipe for worker in busy], timeout)
            for worker in busy:
                if worker.pipe in ready:
                    worker.receive(board, settings.out)
    finally:
        _stop(workers, board, settings.out)


def _stop(workers: Sequence[_WorkerProcess], board: Board, out: Path) -> None:
    """Stop all worker processes; those that train write a checkpoint first."""
    for worker in workers:
        if worker.process.is_alive():
            with suppress(OSError):
                worker.pipe.send(None)
    for worker in workers:
        while worker.run is not None:
            worker.receive(board, out)
        worker.process.join()
        worker.pipe.close()
