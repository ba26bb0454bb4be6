"""``riskmatch sweep``: many runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, RunFailed
from riskmatch.cli.parser import parse
from riskmatch.cli.sweep_look import planned_in, status, table
from riskmatch.cli.sweep_plan import plan
from riskmatch.cli.verbs import call

if TYPE_CHECKING:
    from riskmatch.sweep.board import Board
    from riskmatch.sweep.plan import PlannedRun


def run(words: Sequence[str]) -> int:
    """Many runs: plan them, train them, look at them."""
    verbs = {"plan": plan, "run": _run, "status": status, "retry": _retry, "table": table}
    return call("sweep", verbs, words, "riskmatch sweep plan sweep --data pacs --methods erm,rdm")


@dataclass(frozen=True)
class Run:
    """Train the runs of the plan in DIR that are not yet done, or go on with them.

    Several such commands at the same time share the work. Runs that failed are left alone.
    """

    dir: Positional[Path]
    """The folder of the sweep."""
    jobs: int | None = None
    """Runs at a time; by default one per core, if memory allows."""
    data_dir: Path | None = None
    """A folder in which to look for the files of data sets first."""
    device: str = "auto"
    """Where to train: cpu, cuda:1, …; auto takes a GPU if there is one."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(frozen=True)
class Retry(Run):
    """Train those runs of the plan in DIR again that failed, from their last checkpoints."""


def _run(words: Sequence[str]) -> int:
    """Train what is not yet done, several runs at a time."""
    options = parse(Run, "sweep run", words)
    _train(options, planned_in(options.dir), retry=False)
    return 0


def _retry(words: Sequence[str]) -> int:
    """Train the runs that failed again."""
    options = parse(Retry, "sweep retry", words)
    from riskmatch.sweep.board import Board
    from riskmatch.sweep.plan import RUNS

    planned = planned_in(options.dir)
    failed = Board.of([run.config for run in planned], options.dir / RUNS).failed
    again = [run for run in planned if run.config.id in failed]
    if again:
        _train(options, again, retry=True)
    elif not options.quiet:
        print("No run has failed.")
    return 0


def _train(options: Run, planned: Sequence[PlannedRun], retry: bool) -> None:
    from riskmatch.cli.board import Shown
    from riskmatch.cli.device import device_of
    from riskmatch.sweep.plan import RUNS
    from riskmatch.sweep.running import run_all

    if options.jobs is not None and options.jobs < 1:
        raise BadInput(f"--jobs is a number of runs, one or more, not {options.jobs}.")
    _check_data(planned, options.data_dir)
    with Shown({run.config.id: run.title for run in planned}, options.quiet) as shown:
        board = run_all(
            [run.config for run in planned],
            options.dir / RUNS,
            jobs=options.jobs,
            data_dir=options.data_dir,
            device=device_of(options.device),
            retry=retry,
            on_change=shown,
            on_progress=shown.loading,
        )
    if board.interrupted or board.failed:
        raise RunFailed(_onward(board, planned, options.dir))
    if not options.quiet:
        table = shlex.join(["riskmatch", "sweep", "table", str(options.dir)])
        print(f"All {board.total} runs are done. Their table: {table}")


def _check_data(planned: Sequence[PlannedRun], data_dir: Path | None) -> None:
    """Say what is missing before anything runs, or every run would fail of it."""
    from riskmatch.data import DATASETS

    for name in {run.config.data for run in planned} & DATASETS.keys():
        if cure := DATASETS[name].cure(data_dir):
            raise BadInput(f"{name} is not on this machine. Make it so with {cure}.")


def _onward(board: Board, planned: Sequence[PlannedRun], folder: Path) -> str:
    def command(verb: str) -> str:
        return shlex.join(["riskmatch", "sweep", verb, str(folder)])

    if board.interrupted:
        at = f"{len(board.done)} of {board.total} runs are done"
        return f"Interrupted; {at}. To go on: {command('run')}"
    titles = {run.config.id: run.title for run in planned}
    id, why = next(iter(board.failed.items()))
    first = f"{titles.get(id, 'an ERM phase')} ({id}): {why.rstrip('.')}"
    return (
        f"{len(board.failed)} of {board.total} runs failed; the first: {first}. "
        f"All of them: {command('status')}. To try again: {command('retry')}"
    )
