"""Train runs on this machine, in one process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from riskmatch.data import OnProgress
from riskmatch.runs.config import RunConfig
from riskmatch.space import Interval, bounded
from riskmatch.sweep.board import Board, OnChange, RunOutcome
from riskmatch.sweep.launchers.base import (
    POLL_SECONDS,
    Launcher,
    outside_current_folder,
)
from riskmatch.sweep.worker import (
    StepReport,
    SweepSettings,
    Worker,
    record_failure,
    serve_runs,
)

MEMORY_PER_RUN = 4 * 2**30
"""Bytes that a run of the paper's sizes may need."""
PRELOAD = ["riskmatch.engine", "torch._dynamo"]
"""Modules imported once for all worker processes; optimisers import the second, slowly."""
CHANGE_SECONDS = 10.0
"""Most seconds between two calls of ``on_change``, for progress without a step."""


@dataclass(frozen=True)
class Local(Launcher):
    """Trains runs on this machine, in this process or in several worker processes."""

    jobs: int | None = bounded(None, Interval(1))
    """Runs at a time; by default one per core, if memory allows, or one on a GPU."""
    device: str = "auto"
    """Device to train on: cpu, cuda:1, …; auto takes a GPU if there is one."""

    def launch(
        self,
        board: Board,
        settings: SweepSettings,
        on_change: OnChange,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train every waiting run, dividing the cores among ``jobs`` processes."""
        worker = self.worker(board, settings)
        if board.jobs > 1:
            forkserver.set_forkserver_preload(PRELOAD)
            _start_forkserver()  # imports while we time steps
        worker.time_groups(board, on_progress)
        on_change(board)
        (_launch_here if board.jobs == 1 else _launch_processes)(board, worker, on_change)

    def worker(self, board: Board, settings: SweepSettings) -> Worker:
        """Set ``board.jobs``, and return a worker with its share of the cores.

        It has at most the threads that torch uses now.
        """
        import torch

        from riskmatch.device import resolve_device

        device, jobs = resolve_device(self.device), self.jobs
        if jobs is None:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            jobs = min(cores(), memory // MEMORY_PER_RUN) if device == "cpu" else 1
        board.jobs = max(1, min(jobs, len(board.waiting)))
        threads = max(1, min(torch.get_num_threads(), cores() // board.jobs))
        return Worker(settings, device, threads)


def _start_forkserver() -> None:
    """Start the process that starts workers, unless it runs."""
    with outside_current_folder():
        forkserver.ensure_running()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _launch_here(board: Board, worker: Worker, on_change: OnChange) -> None:
    """Train one run after another in this process."""
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
    def start(cls, worker: Worker) -> _WorkerProcess:
        context = multiprocessing.get_context("forkserver")
        for _ in range(3):
            parent, child = context.Pipe()
            arguments = (child, replace(worker))  # which has loaded no data
            process = context.Process(target=serve_runs, args=arguments, daemon=True)
            try:
                _start_forkserver()
                process.start()
            except (EOFError, ConnectionError) as error:  # the next try starts another helper
                cause = error
                time.sleep(POLL_SECONDS)
                continue
            child.close()
            return cls(process, parent)
        raise ChildProcessError(
            "The helper process that starts workers (Python's forkserver) was killed. If "
            "memory ran out, use fewer jobs; repeat the command to continue."
        ) from cause

    def receive(self, board: Board, out: Path, stopping: bool = False) -> None:
        """Handle one message, or the death of the process.

        Its run fails with it, unless the sweep is ``stopping``: clusters send SIGTERM to all
        processes, and a worker that has not begun its run ends at once.
        """
        assert self.run is not None
        message: StepReport | RunOutcome
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            hint = "; if memory ran out, use fewer jobs" if code == -signal.SIGKILL else ""
            cause = f"the worker process died with exit code {code}{hint}"
            message = (
                RunOutcome("interrupted") if stopping else record_failure(out, self.run, cause)
            )
        if isinstance(message, StepReport):
            board.report_step(self.run, *message)
        else:
            board.close(self.run, message)
            self.run = None


def _launch_processes(board: Board, worker: Worker, on_change: OnChange) -> None:
    """Give runs to worker processes as they become free; a dead process is replaced."""
    children = [_WorkerProcess.start(worker) for _ in range(board.jobs)]
    out = worker.settings.out
    try:
        while not board.interrupted:
            for k, child in enumerate(children):
                if child.run is None and not child.process.is_alive():
                    children[k] = child = _WorkerProcess.start(worker)
                if child.run is None and (run := board.start_next()) is not None:
                    child.run = run
                    child.pipe.send(run)
            on_change(board)
            if not board.unfinished:
                return
            busy = [child for child in children if child.run is not None]
            timeout = POLL_SECONDS if board.external else CHANGE_SECONDS
            ready = wait([child.pipe for child in busy], timeout)
            for child in busy:
                if child.pipe in ready:
                    child.receive(board, out)
    finally:
        for child in children:
            with suppress(OSError):  # not only to those that seem alive: their helper may have died
                child.pipe.send(None)
        for child in children:  # those that train write a checkpoint
            while child.run is not None:
                child.receive(board, out, stopping=True)
            child.process.join()
            child.pipe.close()
