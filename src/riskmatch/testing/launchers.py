"""Conformance checks for launchers: riskmatch's own, or one of yours.

Each check takes a function that makes the launcher and raises :class:`ConformanceError`, which
names the property that fails. In a test module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_launcher_conforms(check):
        check(lambda: MyLauncher(jobs=2))

>>> from riskmatch.sweep import Local
>>> completes_every_run(lambda: Local(jobs=1))
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.board import Board, with_erm_phases
from riskmatch.sweep.launchers import Launcher, run_all
from riskmatch.sweep.worker import SweepSettings, Worker
from riskmatch.testing import checks_in, require

Make = Callable[[], Launcher]
Check = Callable[[Make], None]

_STEPS = 40
_LONG = 2000
"""Steps of a run that reports its progress before it ends."""
_VARYING = ("seconds", "seconds_per_step", "peak_memory")
"""Fields of records that differ between equal runs."""


@dataclass(frozen=True)
class KilledOnce(Objective):
    """ERM that kills its process in mid-run the first time, unless that is the launcher's."""

    marker: str = ""
    """File that exists once a process was killed."""
    launcher: int = 0
    """Process id of the launcher."""

    citation = ""

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """Return the mean risk."""
        mine = os.getpid() != self.launcher
        if memory.step == _STEPS // 2 and mine and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Terms({"risk": ev.risk})


def is_described(make: Make) -> None:
    """A frozen dataclass with a docstring, equal whenever it is made."""
    launcher = type(make())
    decorated = "__dataclass_fields__" in vars(launcher)
    require(decorated, make(), "must be decorated with @dataclass(frozen=True).")
    require(bool(launcher.__doc__), make(), "has no docstring.")
    require(make() == make(), make(), "is not equal to one with the same options.")


def completes_every_run(make: Make) -> None:
    """All runs and the ERM phases that they share are done, on the board and on disk."""
    with _folder() as folder:
        reports: list[int] = []
        runs = _runs()
        board = run_all(runs, folder, make(), on_change=lambda b: reports.append(len(b.done)))
        ids = {run.id for run in with_erm_phases(runs)}
        done = {run.id for run in board.done}
        require(done == ids, make(), f"leaves {len(ids - done)} of {len(ids)} runs undone.")
        recorded = set(_records(folder))
        require(recorded == ids, make(), f"records {len(recorded)} runs in place of {len(ids)}.")
        reported = bool(reports) and reports[0] == 0 and reports[-1] == len(ids)
        require(reported, make(), "must call on_change before the first run and after the last.")


def trains_every_run_once(make: Make) -> None:
    """Records equal those of training one run after another, but for times and memory."""
    with _folder() as folder, _folder() as reference:
        run_all(_runs(), folder, make())
        _train_in_turn(_runs(), reference)
        _require_equal_records(make, folder, reference)


def continues_after_a_failure(make: Make) -> None:
    """A run that fails is recorded with its cause and does not stop the others."""
    with _folder() as folder:
        bad = _run("vrex", hparams={"no such field": 1})
        board = run_all([bad, _run(), _run(seed=1)], folder, make())
        require(list(board.failed) == [bad.id], make(), f"reports the failures {board.failed}.")
        require("no such field" in board.failed[bad.id], make(), "does not report the cause.")
        recorded = records.read(folder / bad.id)
        require(recorded.status == "failed", make(), "does not record the failure.")
        require(not board.unfinished, make(), "leaves runs undone after a failure.")


def resumes_after_an_interrupt(make: Make) -> None:
    """A ``KeyboardInterrupt`` ends the call; the next call continues from the checkpoints."""
    with _folder() as folder, _folder() as reference:
        runs = [_run(seed=7, steps=_LONG, eval_every=_LONG // 2), *_runs()]

        def interrupt(board: Board) -> None:
            if (board.steps or board.done) and not board.interrupted:
                raise KeyboardInterrupt

        board = run_all(runs, folder, make(), on_change=interrupt)
        require(board.interrupted, make(), "does not set board.interrupted on Ctrl-C.")
        require(bool(board.waiting), make(), "trains all runs in spite of Ctrl-C.")
        require(not board.running, make(), "returns while runs are still training.")
        run_all(runs, folder, make())
        _train_in_turn(runs, reference)
        _require_equal_records(make, folder, reference)


def recovers_runs_of_killed_workers(make: Make) -> None:
    """The run of a killed process is trained again, or recorded as failed until it is retried.

    Either way it ends with the records of undisturbed training, and other runs continue. A launcher
    that trains in its own process has nothing to recover from.
    """
    with _folder() as folder, _folder() as reference, _folder() as outside:
        marker = outside / "killed"
        hparams = {"marker": str(marker), "launcher": os.getpid()}
        fatal = _run(f"{__name__}:KilledOnce", hparams=hparams)
        runs = [fatal, _run(), _run(seed=1)]
        board = run_all(runs, folder, make())
        ids = {fatal.id} if marker.exists() else set()
        require(board.failed.keys() <= ids, make(), f"reports the failures {board.failed}.")
        require(not board.unfinished, make(), "leaves runs undone after a worker was killed.")
        record = records.find(folder / fatal.id)
        status = "missing" if record is None else record.status
        expected = "failed" if board.failed else "done"
        require(status == expected, make(), f"records the run of a killed worker as {status}.")
        board = run_all(runs, folder, make(), retry=True)
        require(not board.failed, make(), "cannot retry the run of a killed worker.")
        _train_in_turn(runs, reference)
        _require_equal_records(make, folder, reference)


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


def _run(method: str = "erm", **fields: Any) -> RunConfig:
    values = {"steps": _STEPS, "eval_every": _STEPS // 2, **fields}
    options: dict[str, Any] = {
        "data_options": {"samples": 40},
        "model_options": {"widths": [4]},
    }
    return RunConfig("colored-digits", ("0.1",), method, **options, **values)


def _runs() -> list[RunConfig]:
    """Four short runs, two of which share an ERM phase."""
    phase = _STEPS // 4
    rdm = _run("rdm", pretrain=phase, hparams={"warmup": 0})
    return [rdm, _run("vrex", pretrain=phase), _run(), _run(seed=1)]


def _train_in_turn(runs: Sequence[RunConfig], out: Path) -> None:
    """Train one run after another in this process, in which none is killed."""
    worker = Worker(SweepSettings(out))
    for run in with_erm_phases(runs):
        worker.train(run, lambda report: None)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _records(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the records of every run, by id, without times and memory."""
    lines = {
        path.parent.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in out.glob(f"*/{records.FILE}")
    }
    for entries in lines.values():
        for entry in entries:
            for name in _VARYING:
                entry.pop(name, None)
    return lines


def _require_equal_records(make: Make, out: Path, reference: Path) -> None:
    ours, theirs = _records(out), _records(reference)
    for id, lines in theirs.items():
        equal = ours.get(id) == lines
        require(equal, make(), f"the records of run {id} differ from those of sequential training.")
