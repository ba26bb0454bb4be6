"""Many runs on this machine, several at a time, each one resumed where it was left."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from riskmatch.config import RunConfig
from riskmatch.sweep.board import Board
from riskmatch.sweep.worker import Ended, Stepped, serve, threads, train_run

OnChange = Callable[[Board], None]
ROOM = 4 * 2**30
"""Bytes of memory that a run of the paper's sizes may need."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def affordable_jobs() -> int:
    """As many runs at a time as there are cores, and memory for."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores(), memory // ROOM))


def threads_each(jobs: int) -> int:
    """The threads of one of ``jobs`` processes; never more than torch was told to use."""
    import torch

    return max(1, min(torch.get_num_threads(), cores() // jobs))


def run_all(
    configs: Sequence[RunConfig],
    out: Path,
    *,
    jobs: int | None = None,
    data_dir: Path | None = None,
    on_change: OnChange = lambda board: None,
) -> Board:
    """Train every run that is not yet done, the shared ERM phases first.

    A run that fails does not stop the others. Ctrl-C lets every run write a checkpoint; the next
    call goes on from there.

    Args:
        configs: the runs.
        out: the folder of their records.
        jobs: how many at a time, the cores divided among them; by default one per core,
            if memory allows.
        data_dir: a folder in which to look for the files of the data set first.
        on_change: told before the first run, after every step and after every run.
    """
    board = Board.of(configs, out)
    board.jobs = max(1, min(jobs or affordable_jobs(), len(board.waiting)))
    share = threads_each(board.jobs)
    try:
        if board.waiting and not board.taken:
            _trial(board, data_dir, share)
        on_change(board)
        run = _alone if board.jobs == 1 else _together
        run(board, out, data_dir, share, on_change)
    except KeyboardInterrupt:
        board.interrupted = True
    return board


def _trial(board: Board, data_dir: Path | None, share: int) -> None:
    """Time a step of ERM: the second, as the first warms up."""
    from riskmatch.engine.assemble import assemble

    with threads(share):
        parts = assemble(replace(board.waiting[0], method="erm", hparams={}), "cpu", data_dir)
        batch = next(parts.sampler)
        parts.stepper.step(batch)
        begun = time.monotonic()
        parts.stepper.step(batch)
        board.time("erm", time.monotonic() - begun)


def _alone(board: Board, out: Path, data_dir: Path | None, share: int, on_change: OnChange) -> None:
    """Every run in this process."""
    with threads(share):
        while not board.interrupted and (run := board.take()) is not None:

            def tell(said: Stepped, run: RunConfig = run) -> None:
                board.stepped(run, *said)
                on_change(board)

            _end(board, run, train_run(run, out, data_dir, tell))
            on_change(board)


@dataclass
class _Worker:
    """A process, and what it trains."""

    process: BaseProcess
    pipe: Connection
    run: RunConfig | None = None

    @classmethod
    def start(cls, out: Path, data_dir: Path | None, share: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, out, data_dir, share), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def hear(self, board: Board) -> None:
        """Take one message, or notice that the process is dead."""
        assert self.run is not None
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            said = Ended(f"its process died with exit code {self.process.exitcode}")
        if isinstance(said, Stepped):
            board.stepped(self.run, *said)
        else:
            _end(board, self.run, said)
            self.run = None


def _together(
    board: Board, out: Path, data_dir: Path | None, share: int, on_change: OnChange
) -> None:
    """The runs dealt to processes as they become free; a dead one is replaced."""
    workers = [_Worker.start(out, data_dir, share) for _ in range(board.jobs)]
    try:
        while not board.interrupted:
            for k, worker in enumerate(workers):
                if worker.run is None and not worker.process.is_alive():
                    workers[k] = worker = _Worker.start(out, data_dir, share)
                if worker.run is None and (run := board.take()) is not None:
                    worker.run = run
                    worker.pipe.send(run)
            busy = [worker for worker in workers if worker.run is not None]
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe in ready:
                    worker.hear(board)
            on_change(board)
    except KeyboardInterrupt:
        board.interrupted = True
    finally:
        _dismiss(board, workers)


def _dismiss(board: Board, workers: Sequence[_Worker]) -> None:
    """Stop every worker; those that train write a checkpoint first."""
    for worker in workers:
        if worker.process.is_alive():
            worker.pipe.send(None)
    for worker in workers:
        while worker.run is not None:
            worker.hear(board)
        worker.process.join()
        worker.pipe.close()


def _end(board: Board, run: RunConfig, said: Ended) -> None:
    if said.interrupted:
        board.put_back(run)
    else:
        board.ended(run, said.error)
