"""Train runs as jobs of Slurm, submitted with submitit."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from riskmatch.data import OnProgress
from riskmatch.files import make_folder
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import is_locked
from riskmatch.space import NOT_NEGATIVE, Interval, bounded
from riskmatch.sweep.board import Board, OnChange, RunOutcome
from riskmatch.sweep.launchers.base import (
    POLL_SECONDS,
    Jobs,
    Launcher,
    outside_current_folder,
    supervise,
)
from riskmatch.sweep.launchers.local import cores
from riskmatch.sweep.worker import StepReport, SweepSettings, Worker, record_failure
from riskmatch.validation import from_extra

FOLDER = "slurm"
"""Folder of the files and logs of submitit, in the folder of the records."""
ARRAY = 1000
"""Most runs of a job array: Slurm's default limit is 1001."""
SLURM_POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Slurm(Launcher):
    """Trains runs as jobs of Slurm, in job arrays.

    Example::

        riskmatch sweep run DIR --launcher slurm --time-limit 240 --partition gpu --gpus 1

    Run the command on a login node, where it stays until all runs have ended; Ctrl-C stops the jobs
    after a checkpoint. A job that is preempted or reaches its time limit is requeued, and the run
    continues from its last checkpoint. All nodes share the folder of the sweep.
    """

    time_limit: int = bounded(60, Interval(1))
    """Minutes of a job. A run may need longer: it is requeued and continues."""
    timeouts: int = bounded(10, NOT_NEGATIVE)
    """Number of time limits after which a run fails."""
    partition: str | None = None
    """Partition of the jobs."""
    cores: int = bounded(1, Interval(1))
    """Cores of each run."""
    memory: float | None = bounded(None, NOT_NEGATIVE)
    """Gigabytes of each run."""
    gpus: int = bounded(0, NOT_NEGATIVE)
    """GPUs of each run."""
    jobs: int | None = bounded(None, Interval(1))
    """Runs submitted at a time; by default all that can start."""
    sbatch: Mapping[str, Any] = field(default_factory=dict)
    """Other option of sbatch, such as account=NAME."""
    cluster: Literal["slurm", "local"] = "slurm"
    """local starts the jobs as processes on this machine, to try out a sweep without Slurm."""

    def launch(
        self,
        board: Board,
        settings: SweepSettings,
        on_change: OnChange,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train every waiting run as a job."""
        jobs = self.jobs or (cores() if self.cluster == "local" else sys.maxsize)
        settings = replace(settings, out=settings.out.resolve())
        # A folder of its own: submitit unpickles results, which must not be those of others.
        make_folder(settings.out / FOLDER)
        folder = settings.out / FOLDER / uuid.uuid4().hex
        make_folder(folder)
        try:
            executor = self._executor(folder)
            worker = Worker(settings, "cuda" if self.gpus else "cpu", self.cores)
            submitted = _SlurmJobs(executor, worker, self.cluster == "local")
            try:
                supervise(board, submitted, lambda: jobs, on_change)
            finally:
                submitted.remove_files()
        finally:
            with suppress(OSError):  # it holds logs of failed jobs
                folder.rmdir()
                folder.parent.rmdir()

    def _executor(self, folder: Path) -> Any:
        with from_extra("slurm", "The launcher slurm"):
            import submitit
        if self.cluster == "slurm" and shutil.which("srun") is None:
            raise ValueError(
                "Slurm is not on this machine: there is no command srun. Call this on a login node "
                "of the cluster, or train here with --launcher local."
            )
        limits = {f"{name}_max_num_timeout": self.timeouts for name in ("slurm", "local")}
        executor = submitit.AutoExecutor(folder, cluster=self.cluster, **limits)
        executor.update_parameters(
            name="riskmatch",
            timeout_min=self.time_limit,
            cpus_per_task=self.cores,
            mem_gb=self.memory,
            gpus_per_node=self.gpus or None,
            slurm_partition=self.partition,
            slurm_array_parallelism=ARRAY,
            slurm_additional_parameters={"requeue": True, **self.sbatch},
        )
        return executor


@dataclass
class _SlurmJobs(Jobs):
    """Runs that were submitted to Slurm, or to processes that stand for its jobs."""

    executor: Any
    worker: Worker
    local: bool
    stop: Path = field(init=False)
    """File that asks the jobs to end."""
    finished: list[Any] = field(default_factory=list)
    """Jobs that ended without a failure, whose files are not needed any more."""
    failed: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stop = self.executor.folder / f"stop-{uuid.uuid4().hex}"

    def submit(self, runs: Sequence[RunConfig]) -> None:
        for first in range(0, len(runs), ARRAY):
            part = runs[first : first + ARRAY]
            tasks = [_Task(self.worker, run, self.stop, Path.cwd()) for run in part]
            try:
                with outside_current_folder():
                    jobs = self.executor.submit_array(tasks)
            except RuntimeError as error:
                cause = " ".join(str(error).split())
                raise ValueError(f"Slurm does not accept the jobs: {cause}") from error
            self.submitted |= zip(jobs, part, strict=True)

    def ended(self) -> Iterator[tuple[RunConfig, RunOutcome]]:
        time.sleep(POLL_SECONDS if self.local else SLURM_POLL_SECONDS)
        for job, run in list(self.submitted.items()):
            if job.done():
                del self.submitted[job]
                outcome = self._outcome(job, run)
                (self.failed if outcome.status == "failed" else self.finished).append(job)
                yield run, outcome

    def remove_files(self) -> None:
        """Remove the files of all jobs that did not fail."""
        kept = {job.paths.submission_file for job in self.failed}
        for job in self.finished:
            paths = job.paths
            files = {paths.submission_file, paths.submitted_pickle, paths.result_pickle}
            for file in (files | {paths.stderr, paths.stdout}) - kept:
                file.unlink(missing_ok=True)
        for link in self.stop.parent.glob(".submission_file_*"):  # of submitit, to one of these
            if not link.exists():
                link.unlink(missing_ok=True)
        if self.local:  # else a job that was cancelled may still start, and must stop
            self.stop.unlink(missing_ok=True)

    def cancel(self) -> None:
        if self.submitted:
            self.stop.touch()
        for job, run in list(self.submitted.items()):
            if not is_locked(self.worker.settings.out / run.id):
                job.cancel(check=False)
                if not self.local:  # Slurm may take minutes to report it
                    del self.submitted[job]

    def _outcome(self, job: Any, run: RunConfig) -> RunOutcome:
        from submitit.core.utils import FailedJobError

        out = self.worker.settings.out
        cause = f"the job {job.job_id} ended without a result"
        if job.paths.result_pickle.exists():  # else result() would wait for it
            try:
                return RunOutcome(*job.result())
            except FailedJobError:
                cause = f"the job {job.job_id} failed"
        elif self.stop.exists():
            return RunOutcome("interrupted")
        return record_failure(out, run, f"{cause}; see {job.paths.stderr}")


@dataclass(frozen=True)
class _Task:
    """Trains a run in a job."""

    worker: Worker
    run: RunConfig
    stop: Path
    cwd: Path

    def __call__(self) -> RunOutcome:
        from submitit import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        if self.cwd.is_dir():
            os.chdir(self.cwd)
        number = signal.Signals[f"SIG{JobEnvironment.USR_SIG}"]
        signalled: list[int] = []
        requeue = signal.getsignal(number)
        assert callable(requeue)
        signal.signal(number, lambda *_: signalled.append(number))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # precedes the other when a job is preempted

        def report(progress: StepReport) -> None:
            if signalled or self.stop.exists():
                raise KeyboardInterrupt

        outcome = self.worker.train(self.run, report)
        if outcome.status != "interrupted" or not signalled or self.stop.exists():
            return outcome
        try:
            requeue(number, None)  # ends the process
        except UncompletedJobError as error:
            return record_failure(self.worker.settings.out, self.run, str(error))
        return outcome

    def checkpoint(self) -> Any:
        """Return what the requeued job runs."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)
