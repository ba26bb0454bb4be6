"""Train runs one after another in one process, and report their progress."""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from riskmatch.files import make_folder
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.records import BusyError, lock
from riskmatch.sweep.board import Board, RunOutcome, group_of

if TYPE_CHECKING:
    from riskmatch.data import OnProgress
    from riskmatch.data.domain import DomainSet

REPORT_EVERY = 0.1
"""Least seconds between two step reports, so that short steps do not wait for them."""
TIMING_LIMIT = 20.0
"""Seconds after which no further group of runs is timed; it takes the mean of the others."""


class StepReport(NamedTuple):
    """A run reached a step."""

    step: int
    seconds: float
    """Seconds since the previous report of the run."""


@dataclass(frozen=True)
class SweepSettings:
    """What all runs of a sweep have in common, beside their configurations."""

    out: Path
    """Folder of the records."""
    data_dir: Path | None = None
    """Folder searched first for the files of data sets."""
    predictions: bool = False
    """Whether to store the predictions of every sample at each evaluation."""


@dataclass
class Worker:
    """Trains runs in this process, and keeps the data set of the last run in memory.

    Example:
        >>> import tempfile
        >>> run = RunConfig("colored-digits", ("0.1",), "erm", steps=2, eval_every=2,
        ...     data_options={"samples": 40}, model_options={"widths": [4]})
        >>> Worker(SweepSettings(Path(tempfile.mkdtemp()))).train(run, lambda report: None)
        RunOutcome(status='done', error=None)
    """

    settings: SweepSettings
    device: str = "cpu"
    threads: int | None = None
    """torch threads of this process during a run; None leaves them as they are."""
    _loaded: tuple[str, DomainSet] | None = field(default=None, init=False, repr=False)

    def domains(self, run: RunConfig, on_progress: OnProgress | None = None) -> DomainSet:
        """Return the data set of a run, loading it unless the last run had the same.

        The preprocessing of a table depends on the test domains, too.
        """
        from riskmatch.device import keep_freed_memory
        from riskmatch.engine.assemble import domains_of

        values = run.to_json()
        options = values["data_options"], values["model_options"]
        key = json.dumps([run.data, run.model, *options])
        fitted = json.dumps([values["test_domains"], run.risk])
        if self._loaded is None or self._loaded[0] not in (key, key + fitted):
            self._loaded = None  # frees the memory before the next data set is loaded
            keep_freed_memory()
            domains = domains_of(run, self.settings.data_dir, self.device, on_progress)
            self._loaded = key + fitted if domains.preprocessing else key, domains
        return self._loaded[1]

    def train(self, run: RunConfig, report: Callable[[StepReport], None]) -> RunOutcome:
        """Train a run, from its last checkpoint if there is one.

        Args:
            run: configuration of the run.
            report: called with the progress a few times per second; a ``KeyboardInterrupt`` that
                it raises stops the run after a checkpoint.
        """
        from riskmatch.engine import Progress
        from riskmatch.engine.run import train

        reported, stepped = time.monotonic(), False

        def on_step(progress: Progress) -> None:
            nonlocal reported, stepped
            now, stepped = time.monotonic(), True
            if now - reported > REPORT_EVERY or progress.step == progress.steps:
                seconds, reported = now - reported, now
                report(StepReport(progress.step, seconds))

        try:
            with torch_threads(self.threads), warnings.catch_warnings():
                warnings.simplefilter("ignore", RunWarning)  # the plan warned of all runs together
                train(
                    run,
                    self.settings.out,
                    device=self.device,
                    data_dir=self.settings.data_dir,
                    domains=self.domains(run),
                    resume=True,
                    predictions=self.settings.predictions,
                    on_step=on_step,
                )
        except KeyboardInterrupt:
            return RunOutcome("interrupted")
        except BusyError:
            return RunOutcome("locked")
        except (Exception, SystemExit) as error:
            return record_failure(self.settings.out, run, f"{type(error).__name__}: {error}")
        # Without a step, another process finished the run just before this one could lock it.
        return RunOutcome("done" if stepped else "locked")

    def time_groups(self, board: Board, on_progress: OnProgress | None = None) -> None:
        """Estimate the pace of every group of waiting runs that was never timed."""
        from riskmatch.engine.cost import run_cost

        start = time.monotonic()
        with torch_threads(self.threads):
            for run in {group_of(run): run for run in reversed(board.waiting)}.values():
                if time.monotonic() - start > TIMING_LIMIT:
                    return
                if not board.has_pace(run):
                    try:
                        domains = self.domains(run, on_progress)
                        cost = run_cost(run, device=self.device, domains=domains, pieces=False)
                        board.report_pace(run, cost.seconds / (run.steps - run.pretrain))
                    except (Exception, SystemExit):  # the run will fail with it and record it
                        continue


def record_failure(out: Path, run: RunConfig, cause: str) -> RunOutcome:
    """Record that a run failed here, unless another process trains it or it has ended already."""
    folder = out / run.id
    try:
        make_folder(folder)
        with lock(folder):
            record = records.find(folder)
            if record is not None and record.status != "unfinished":
                return RunOutcome(record.status, record.error)
            if record is None:
                records.start(folder, run)
            else:
                records.rewind(folder, sys.maxsize)  # removes an incomplete last line
            records.end(folder, "failed", cause)
    except BusyError:
        return RunOutcome("locked")
    except (OSError, ValueError):  # a full disk or a damaged file; the cause is still returned
        pass
    return RunOutcome("failed", cause)


def serve_runs(pipe: Connection, worker: Worker) -> None:
    """Train the runs that arrive through ``pipe`` until None does, and send back the outcomes.

    Anything that arrives during a run interrupts it, and so does the end of the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent interrupts us through the pipe

    def report(progress: StepReport) -> None:
        try:
            pipe.send(progress)
            if not pipe.poll():
                return
        except OSError:
            pass
        raise KeyboardInterrupt

    with suppress(EOFError, OSError):
        while (run := pipe.recv()) is not None:
            pipe.send(worker.train(run, report))


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Set the number of torch threads, if given, within a ``with`` block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
