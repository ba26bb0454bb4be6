"""Train runs on Ray: on this machine or on an existing cluster."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.files import make_folder, write_whole
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import BusyError, lock
from riskmatch.space import NOT_NEGATIVE, Interval, bounded
from riskmatch.sweep.board import Board, OnChange, RunOutcome
from riskmatch.sweep.launchers.base import (
    POLL_SECONDS,
    Jobs,
    Launcher,
    outside_current_folder,
    supervise,
)
from riskmatch.sweep.worker import SweepSettings, Worker, record_failure
from riskmatch.validation import from_extra

Files = Mapping[str, bytes]
"""Contents of files by path, relative to the folder of the records."""
PATIENCE = 20.0
"""Seconds to wait for the head node, or for a node that can train. Without a head node, Ray ends
this process after a minute."""
CONTINUE = "Runs that have not ended are left unfinished; riskmatch sweep run continues them."


@dataclass(frozen=True)
class Ray(Launcher):
    """Trains runs as tasks of Ray, spread over the nodes of a cluster.

    Example::

        riskmatch sweep run DIR --launcher ray --address auto --gpus 0.5

    A run whose worker process or node dies is trained again, from its last checkpoint. All nodes
    need riskmatch and the data, under the same paths, and the folder of the sweep, unless
    ``copy_back`` is given.
    """

    address: str = "local"
    """Cluster: auto, host:port, or local to start Ray on this machine."""
    cores: int = bounded(1, Interval(1))
    """Cores of each run."""
    memory: float | None = bounded(None, NOT_NEGATIVE)
    """Gigabytes that Ray reserves for each run."""
    gpus: float = bounded(0.0, NOT_NEGATIVE)
    """GPUs of each run; 0.5 lets two runs share one."""
    jobs: int | None = bounded(None, Interval(1))
    """Runs at a time; by default as many as the nodes have cores, memory and GPUs for."""
    retries: int = bounded(3, NOT_NEGATIVE)
    """How often a run whose worker process died is trained again; lost nodes do not count."""
    copy_back: bool = False
    """Workers do not share the folder of the sweep: they train in a temporary folder and send the
    files of a run back when it ends."""

    def launch(
        self,
        board: Board,
        settings: SweepSettings,
        on_change: OnChange,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train every waiting run as a task of Ray.

        Raises:
            ChildProcessError: Ray can train no more, because its processes on this machine, its
                head node or all nodes that can train a run are lost.
        """
        with from_extra("ray", "The launcher ray"):
            import ray

        with ExitStack() as stack:
            if not ray.is_initialized():
                _connect(self.address)
                stack.callback(ray.shutdown)
            if self.jobs is None and not self._capacity(ray.nodes()):
                raise ValueError(
                    f"No node of the Ray cluster has what a run needs: {self._resources()}. "
                    "Ask for less, or give --jobs if the cluster adds nodes on demand."
                )
            task = ray.remote(_train).options(
                num_cpus=self.cores,
                num_gpus=self.gpus,
                memory=self._resources().get("memory"),
                max_retries=0,  # Ray would count lost nodes, and repeat a lack of memory endlessly
                scheduling_strategy="SPREAD",
            )
            shared = replace(settings, out=settings.out.resolve())
            device = "cuda" if self.gpus else "cpu"
            arguments = (Path.cwd(), shared, device, self.cores)
            tasks = _Tasks(task, arguments, shared.out, self.copy_back, self.retries)
            stack.callback(tasks.unlock)
            supervise(board, tasks, self._limit, on_change)

    def _limit(self) -> int:
        """Return how many runs to train at a time, as soon as there is a node for one."""
        import ray

        until = time.monotonic() + PATIENCE
        while True:
            problem = "The head node of the Ray cluster does not answer."
            if _head_answers():
                if limit := self.jobs or self._capacity(ray.nodes()):
                    return limit
                problem = f"No living node of Ray has what a run needs: {self._resources()}."
            if time.monotonic() > until:
                raise ChildProcessError(f"{problem} {CONTINUE}")
            time.sleep(POLL_SECONDS)

    def _resources(self) -> dict[str, float]:
        amounts = {"CPU": self.cores, "memory": (self.memory or 0) * 2**30, "GPU": self.gpus}
        return {name: amount for name, amount in amounts.items() if amount}

    def _capacity(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """Return how many runs fit on the nodes that are alive."""
        return sum(
            min(
                int(node["Resources"].get(name, 0) / amount)
                for name, amount in self._resources().items()
            )
            for node in nodes
            if node["Alive"]
        )


@dataclass
class _Tasks(Jobs):
    """Runs that were submitted to Ray."""

    task: Any
    arguments: tuple[Any, ...]
    out: Path
    copy_back: bool
    retries: int
    crashes: Counter[str] = field(default_factory=Counter, init=False)
    """How often the worker process of a run died, by run id."""
    locks: dict[str, ExitStack] = field(default_factory=dict, init=False)
    """Locks of the runs whose workers cannot lock the folder themselves, by run id."""
    again: list[RunConfig] = field(default_factory=list, init=False)
    """Runs that the board offers again: other processes locked them, or memory had run out."""
    starved: list[RunConfig] = field(default_factory=list, init=False)
    """Runs that Ray stopped because memory ran out; they wait until another run ends."""
    cancelled: bool = field(default=False, init=False)

    def submit(self, runs: Sequence[RunConfig]) -> None:
        for run in runs:
            try:
                files = self._lock_and_read(run) if self.copy_back else None
            except BusyError:
                self.again.append(run)
                continue
            with _connection():
                task = self.task.remote(run, *self.arguments, files)
            self.submitted[task] = run

    def ended(self) -> Iterator[tuple[RunConfig, RunOutcome]]:
        import ray

        while self.again:
            yield self.again.pop(), RunOutcome("locked")
        if not self.submitted:
            time.sleep(POLL_SECONDS)
            return
        with _connection():
            ready, _ = ray.wait(list(self.submitted), timeout=POLL_SECONDS)
        freed = False
        for task in ready:
            run = self.submitted.pop(task)
            if outcome := self._outcome(task, run):
                freed = True
                yield run, outcome
        if freed or not self.submitted:
            self.again, self.starved = self.starved, []

    def cancel(self) -> None:
        import ray

        self.cancelled = True
        for task in self.submitted:
            ray.cancel(task)  # a KeyboardInterrupt in the worker

    def unlock(self) -> None:
        """Release the locks of runs that were dropped."""
        for lock_ in self.locks.values():
            lock_.close()

    def _outcome(self, task: Any, run: RunConfig) -> RunOutcome | None:
        """Return how a run ended; None if it waits for memory."""
        import ray
        from ray import exceptions as errors

        outcome: RunOutcome
        with self.locks.pop(run.id, ExitStack()):
            try:
                with _connection():
                    outcome, files = ray.get(task)
                if files:
                    _write(self.out, run, files)
                if outcome.status == "interrupted" and not self.cancelled:
                    return RunOutcome("locked")  # its node shuts down; the board offers it again
                return outcome
            except ChildProcessError:
                raise
            except errors.TaskCancelledError:
                return RunOutcome("interrupted")
            except (errors.NodeDiedError, errors.ObjectLostError):
                return RunOutcome("locked")  # not the fault of the run
            except (errors.RayError, OSError) as error:
                cause = getattr(error, "cause", None) or error
        if isinstance(cause, errors.WorkerCrashedError | errors.OutOfMemoryError):
            self.crashes[run.id] += 1
            if self.cancelled:
                return RunOutcome("interrupted")
            if self.crashes[run.id] <= self.retries:
                if isinstance(cause, errors.WorkerCrashedError):
                    return RunOutcome("locked")
                self.starved.append(run)
                return None
        lines = str(cause).strip().splitlines() or [""]
        return record_failure(self.out, run, f"{type(cause).__name__}: {lines[0]}")

    def _lock_and_read(self, run: RunConfig) -> Files:
        """Lock a run, and read its files and those of its ERM phase, from which it starts."""
        make_folder(self.out / run.id)
        with ExitStack() as stack:
            stack.enter_context(lock(self.out / run.id))
            self.locks[run.id] = stack.pop_all()
        phase = _read(self.out, run.erm_phase()) if run.pretrain else {}
        return {**phase, **_read(self.out, run)}


def _connect(address: str) -> None:
    import ray

    options = {"include_dashboard": False} if address == "local" else {}
    try:
        _reach(address.removeprefix("ray://"))  # Ray itself would try for minutes
        with outside_current_folder():
            ray.init(address, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"There is no Ray cluster at the address '{address}'. Start one with ray start --head, "
            "or use the address local."
        ) from error


def _reach(address: str) -> None:
    """Raise an ``OSError`` unless a process answers at ``host:port``; check no other address."""
    host, colon, port = address.rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()


def _head_answers() -> bool:
    import ray

    try:
        if not ray.util.client.ray.is_connected():  # a client does not reach this address
            _reach(ray.get_runtime_context().gcs_address)
    except OSError:
        return False
    return True


@contextmanager
def _connection() -> Iterator[None]:
    """Raise a ``ChildProcessError`` if Ray's processes on this machine can train no more."""
    from ray import exceptions as errors

    lost = (errors.LocalRayletDiedError, errors.RaySystemError, errors.TaskUnschedulableError)
    try:
        yield
    except errors.RayTaskError:  # is an instance of its cause, too
        raise
    except (*lost, OSError) as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        raise ChildProcessError(f"Ray can train no more: {cause}. {CONTINUE}") from error


@lru_cache(maxsize=1)
def _worker(settings: SweepSettings, device: str, threads: int) -> Worker:
    """Return the worker of this process, which keeps the data set between runs."""
    return Worker(settings, device, threads)


def _train(
    run: RunConfig,
    cwd: Path,
    settings: SweepSettings,
    device: str,
    threads: int,
    files: Files | None,
) -> tuple[RunOutcome, Files]:
    """Train a run in a worker process; with ``files``, in a temporary folder that starts with them.

    Returns:
        The outcome and, from a temporary folder, the files of the run.
    """
    if cwd.is_dir():
        os.chdir(cwd)
    worker = _worker(settings, device, threads)
    with ExitStack() as stack:
        # A node that shuts down terminates its workers. This interrupts the run; the SystemExit
        # that Ray's handler raises would fail it.
        handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, handler or signal.SIG_DFL)
        if files is None:
            return worker.train(run, lambda report: None), {}
        out = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, data in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(data)
        worker.settings = replace(settings, out=out)
        outcome = worker.train(run, lambda report: None)
        return outcome, _read(out, run)


def _read(out: Path, run: RunConfig) -> dict[str, bytes]:
    """Read the files of a run; others in its folder are left alone."""
    names = (records.FILE, records.PREPROCESSING, records.CHECKPOINTS, predictions.FOLDER)
    return {
        str(path.relative_to(out)): path.read_bytes()
        for name in names
        for path in [out / run.id / name, *(out / run.id / name).rglob("*")]
        if path.is_file()
    }


def _write(out: Path, run: RunConfig, files: Files) -> None:
    """Write the files of a run, its record last, and remove those that it no longer has."""
    for name in sorted(files, key=lambda name: Path(name).name == records.FILE):
        make_folder((out / name).parent)
        write_whole(out / name, files[name])
    for name in _read(out, run).keys() - files.keys():
        (out / name).unlink()
