"""Many runs on this machine, several at a time, each one resumed where it was left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from riskmatch.data.progress import OnProgress
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lock import BusyError, held, lock
from riskmatch.sweep.board import Board
from riskmatch.sweep.timing import time_steps
from riskmatch.sweep.worker import Bench, Ended, Stepped, put_failure_on_file, serve, threads

OnChange = Callable[[Board], None]
ROOM = 4 * 2**30
"""Bytes of memory that a run of the paper's sizes may need."""
PRELOAD = ["riskmatch.engine", "torch._dynamo"]
"""What is imported once for all workers; the second, which optimisers import, takes seconds."""
POLL = 0.5
"""Seconds from one look at the runs of other processes to the next."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def affordable_jobs(device: str = "cpu") -> int:
    """As many runs at a time as there are cores, and memory for; on another device, one."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores(), memory // ROOM)) if device == "cpu" else 1


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
    device: str = "cpu",
    retry: bool = True,
    predictions: bool = False,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Board:
    """Train every run that is not yet done, the shared ERM phases first.

    A run that fails does not stop the others. Ctrl-C lets every run write a checkpoint; the next
    call goes on from there. Calls at the same time on the same folder share the work: a run that
    another process trains is left to it, and looked after at the end.

    Args:
        configs: the runs.
        out: the folder of their records.
        jobs: how many at a time, the cores divided among them; by default one per core,
            if memory allows.
        data_dir: a folder in which to look for the files of the data set first.
        device: where to train.
        retry: train those that failed again, too.
        predictions: keep what the models say of every sample at each evaluation.
        on_change: told before the first run, as runs go on, and after every run.
        on_progress: told of every image that is decoded or embedded before that.
    """
    if retry:
        reopen(configs, out)
    board = Board.of(configs, out)
    board.jobs = max(1, min(jobs or affordable_jobs(device), len(board.waiting)))
    share, bench = threads_each(board.jobs), Bench(out, data_dir, device, predictions)
    if board.jobs > 1:
        forkserver.set_forkserver_preload(PRELOAD)
        forkserver.ensure_running()  # imports while we take the time
    try:
        time_steps(board, bench, share, on_progress)
        on_change(board)
        run = _alone if board.jobs == 1 else _together
        run(board, bench, share, on_change)
    except KeyboardInterrupt:
        board.interrupted = True
    return board


def reopen(configs: Sequence[RunConfig], out: Path) -> None:
    """Let the runs that failed, and their ERM phases, go on from their last checkpoints."""
    for id in Board.of(configs, out).failed:
        with suppress(BusyError, FileNotFoundError, ValueError), lock(out / id):
            found = records.standing(out / id)
            if found is not None and found.status == "failed":  # still
                records.rewind(out / id, sys.maxsize)


def _take(board: Board, out: Path) -> RunConfig | None:
    """The next run for us to train; notes what other processes train, and what they did."""
    for left in list(board.elsewhere.values()):
        if not held(out / left.id):
            board.recall(left)
    while (run := board.take()) is not None:
        if held(out / run.id):
            board.leave(run)
            continue
        found = records.standing(out / run.id)
        if found is None or found.status == "unfinished":
            return run
        board.others.add(run.id)
        board.ended(run, found.error)
    return None


def _alone(board: Board, bench: Bench, share: int, on_change: OnChange) -> None:
    """Every run in this process."""
    with threads(share):
        while not board.interrupted:
            run = _take(board, bench.out)
            if run is not None:

                def tell(said: Stepped, run: RunConfig = run) -> None:
                    board.stepped(run, *said)
                    on_change(board)

                _end(board, run, bench.train(run, tell))
            elif board.elsewhere:
                time.sleep(POLL)
            on_change(board)
            if not board.left:
                return


@dataclass
class _Worker:
    """A process, and what it trains."""

    process: BaseProcess
    pipe: Connection
    run: RunConfig | None = None

    @classmethod
    def start(cls, bench: Bench, share: int) -> _Worker:
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        empty = replace(bench)  # of the data set at hand
        process = context.Process(target=serve, args=(theirs, empty, share), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def hear(self, board: Board, out: Path) -> None:
        """Take one message, or notice that the process is dead, of which its run fails."""
        assert self.run is not None
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            said = put_failure_on_file(out, self.run, _death(self.process.exitcode))
        if isinstance(said, Stepped):
            board.stepped(self.run, *said)
        else:
            _end(board, self.run, said)
            self.run = None


def _death(exit_code: int | None) -> str:
    """How a process died, in words."""
    likely = ", as when memory runs out: try fewer jobs" if exit_code == -signal.SIGKILL else ""
    return f"its process died with exit code {exit_code}{likely}"


def _together(board: Board, bench: Bench, share: int, on_change: OnChange) -> None:
    """The runs dealt to processes as they become free; a dead one is replaced."""
    workers = [_Worker.start(bench, share) for _ in range(board.jobs)]
    try:
        while not board.interrupted:
            for k, worker in enumerate(workers):
                if worker.run is None and not worker.process.is_alive():
                    workers[k] = worker = _Worker.start(bench, share)
                if worker.run is None and (run := _take(board, bench.out)) is not None:
                    worker.run = run
                    worker.pipe.send(run)
            on_change(board)
            if not board.left:
                return
            busy = [worker for worker in workers if worker.run is not None]
            ready = wait([worker.pipe for worker in busy], POLL if board.elsewhere else None)
            for worker in busy:
                if worker.pipe in ready:
                    worker.hear(board, bench.out)
    except KeyboardInterrupt:
        board.interrupted = True
    finally:
        _dismiss(board, workers, bench.out)


def _dismiss(board: Board, workers: Sequence[_Worker], out: Path) -> None:
    """Stop every worker; those that train write a checkpoint first."""
    for worker in workers:
        if worker.process.is_alive():
            with suppress(OSError):
                worker.pipe.send(None)
    for worker in workers:
        while worker.run is not None:
            worker.hear(board, out)
        worker.process.join()
        worker.pipe.close()


def _end(board: Board, run: RunConfig, said: Ended) -> None:
    if said.how == "interrupted":
        board.put_back(run)
    elif said.how == "busy":
        board.leave(run)
    else:
        board.ended(run, said.error)
