"""riskmatch's own launchers pass the checks for launchers; faulty ones fail them."""

import multiprocessing
import time
from dataclasses import dataclass

import pytest

from riskmatch.sweep import Launcher, Local, RunOutcome, Worker
from riskmatch.sweep.launchers.base import Jobs, supervise
from riskmatch.testing import ConformanceError, launchers
from riskmatch.testing.launchers import CHECKS


def name(check):
    return check.__name__


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_local_launcher_conforms(check, jobs):
    check(lambda: Local(jobs=jobs))


@dataclass(frozen=True)
class Sequential(Launcher):
    """The example in the documentation of Launcher."""

    device: str = "cpu"

    def launch(self, board, settings, on_change, on_progress=None):
        worker = Worker(settings, self.device)
        while board.unfinished and not board.interrupted:
            on_change(board)
            run = board.start_next()
            if run is None:
                time.sleep(1)
            else:
                board.close(run, self.train(worker, run))
        on_change(board)

    def train(self, worker, run):
        return worker.train(run, lambda report: None)


@dataclass(frozen=True)
class Forgetful(Sequential):
    """Reports runs as done without training them."""

    def train(self, worker, run):
        return RunOutcome("done")


@dataclass(frozen=True)
class Fragile(Sequential):
    """Stops at the first failure."""

    def launch(self, board, settings, on_change, on_progress=None):
        worker = Worker(settings, self.device)
        on_change(board)
        while (run := board.start_next()) and not board.failed:
            board.close(run, self.train(worker, run))
            on_change(board)


@dataclass(frozen=True)
class Silent(Sequential):
    """Never calls on_change."""

    def launch(self, board, settings, on_change, on_progress=None):
        super().launch(board, settings, lambda board: None)


class Undecorated(Sequential):
    """Is not a dataclass of its own."""


@dataclass(frozen=True)
class Trusting(Sequential):
    """Trains each run in a process, and takes it as done whatever becomes of the process."""

    def train(self, worker, run):
        context = multiprocessing.get_context("forkserver")
        process = context.Process(target=worker.train, args=(run, print))
        process.start()
        process.join()
        return RunOutcome("done")


@dataclass
class Queue(Jobs):
    """An engine that trains the oldest job whenever it is asked which ones have ended."""

    worker: Worker

    def submit(self, runs):
        self.submitted |= {run.id: run for run in runs}

    def ended(self):
        for id in list(self.submitted)[:1]:
            run = self.submitted.pop(id)
            yield run, self.worker.train(run, lambda report: None)

    def cancel(self):
        self.submitted.clear()


@dataclass(frozen=True)
class Queued(Launcher):
    """Submits up to three runs at a time to a queue."""

    def launch(self, board, settings, on_change, on_progress=None):
        supervise(board, Queue(Worker(settings)), lambda: 3, on_change)


@pytest.mark.parametrize("launcher", [Sequential, Queued])
@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_launcher_of_ones_own_conforms(check, launcher):
    check(launcher)


@pytest.mark.parametrize(
    ("launcher", "check"),
    [
        (Undecorated, launchers.is_described),
        (Forgetful, launchers.completes_every_run),
        (Silent, launchers.completes_every_run),
        (Forgetful, launchers.trains_every_run_once),
        (Fragile, launchers.continues_after_a_failure),
        (Silent, launchers.resumes_after_an_interrupt),
        (Trusting, launchers.recovers_runs_of_killed_workers),
    ],
    ids=lambda value: value.__name__,
)
def test_faulty_launcher_fails(launcher, check):
    with pytest.raises(ConformanceError, match=launcher.__name__):
        check(launcher)
