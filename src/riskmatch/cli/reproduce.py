"""``riskmatch reproduce``: the paper's tables and figures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, RunFailed, check_name
from riskmatch.cli.parser import parse
from riskmatch.experiments.table1 import Budget

if TYPE_CHECKING:
    from riskmatch.experiments.table1 import Planned
    from riskmatch.sweep.board import Board


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or a figure of the paper.

    The same command again goes on with what was interrupted, and runs nothing twice.

    Budgets:
      smoke    a small network and few digits: shows within a minute that everything works
      laptop   the paper's sizes, three seeds, one value of every grid; all methods but MMD
      paper    everything: ten seeds, whole grids

    Example:
      riskmatch reproduce table1 --budget smoke
    """

    name: Positional[str | None] = None
    """A table or a figure; --list shows which there are."""
    list: bool = False
    """What can be reproduced."""
    budget: Budget | None = None
    """How much to run."""
    methods: str | None = None
    """Some of the methods, as in rdm,vrex."""
    seeds: str | None = None
    """Seeds in place of the budget's, as in 0,1,2."""
    search_seeds: str | None = None
    """Seeds on which the whole grids run; on the others, only what these choose."""
    init: Literal["random", "erm", "both"] = "both"
    """Where methods start from."""
    as_is: bool = False
    """Train nothing: show the runs that are done."""
    out: Path | None = None
    """Where to; by default reproduce, or reproduce-smoke."""
    jobs: int | None = None
    """Runs at a time; by default one per core, if memory allows."""
    data_dir: Path | None = None
    """A folder in which to look for MNIST first."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the result as JSON."""


def run(words: Sequence[str]) -> int:
    """Reproduce a table or a figure, or say which there are."""
    options = parse(Reproduce, "reproduce", words or ["--help"])
    from riskmatch.experiments.catalogue import EXPERIMENTS

    if options.list:
        _list({name: entry.summary for name, entry in EXPERIMENTS.items()}, options.json)
        return 0
    if options.name is None:
        raise BadInput(f"What? Name one of {', '.join(EXPERIMENTS)}.")
    check_name("table or figure", options.name, EXPERIMENTS)
    if options.budget is None:
        raise BadInput("How much? Give --budget smoke, laptop or paper.")
    _reproduce(
        options.name, options.budget, options, shlex.join(["riskmatch", "reproduce", *words])
    )
    return 0


def _list(summaries: dict[str, str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summaries, indent=2))
        return
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        print(f"{name:<{width}}   {summary}")


def _reproduce(name: str, budget: Budget, options: Reproduce, command: str) -> None:
    from riskmatch.cli.board import Shown
    from riskmatch.experiments.catalogue import EXPERIMENTS
    from riskmatch.experiments.choosing import narrow
    from riskmatch.experiments.table1_report import done
    from riskmatch.sweep.running import run_all

    experiment, data_dir = EXPERIMENTS[name], options.data_dir
    planned = _planned(name, budget, options)
    _check_needs(data_dir)
    out = options.out or Path("reproduce-smoke" if budget == "smoke" else "reproduce")

    def train(runs: Sequence[Planned]) -> Board:
        with Shown({run.config.id: run.title for run in runs}, quiet=options.quiet) as shown:
            return run_all(
                [run.config for run in runs],
                out / "runs",
                jobs=options.jobs,
                data_dir=data_dir,
                on_change=shown,
            )

    board: Board | None = None
    if options.search_seeds is not None:
        search = _seeds("search-seeds", options.search_seeds)
        if not options.as_is:
            board = train([run for run in planned if run.config.seed in search])
        planned = narrow(planned, done(planned, out / "runs"), search)
    if not options.as_is and not (board and board.interrupted):
        board = train(planned)
    unfinished = bool(board and (board.failed or board.waiting))
    some = bool(done(planned, out / "runs"))
    if options.as_is and not some:
        raise BadInput(f"None of these runs is done in {out}. Without --as-is they are trained.")
    if some and (experiment.partial or not unfinished):
        result = experiment.write(planned, out, budget, _essence(options), data_dir)
        if options.json:
            values = {"files": [str(path) for path in result.files], "result": result.values}
            print(json.dumps({**values, "failed": board.failed if board else {}}, indent=2))
        elif not options.quiet:
            print(result.text, end="\n\n")
            print("\n".join(map(str, result.files)))
    if board and unfinished:
        raise RunFailed(_onward(board, planned, command))


def _essence(options: Reproduce) -> str:
    """The command without what the result does not depend on."""
    words = ["riskmatch", "reproduce", str(options.name)]
    for name in ("budget", "methods", "seeds", "search_seeds", "init"):
        value = getattr(options, name)
        if value != getattr(Reproduce, name):
            words += [f"--{name.replace('_', '-')}", value]
    return " ".join(words)


def _planned(name: str, budget: Budget, options: Reproduce) -> list[Planned]:
    from riskmatch.experiments.catalogue import EXPERIMENTS
    from riskmatch.experiments.rows import INITS, METHODS

    methods = options.methods.split(",") if options.methods else None
    for method in methods or ():
        check_name("method of the table", method, METHODS)
    if options.jobs is not None and options.jobs < 1:
        raise BadInput(f"--jobs is a number of runs, one or more, not {options.jobs}.")
    seeds = _seeds("seeds", options.seeds) if options.seeds else None
    try:
        return EXPERIMENTS[name].plan(
            budget, methods, seeds, INITS if options.init == "both" else (options.init,)
        )
    except ValueError as error:
        raise BadInput(str(error)) from error


def _seeds(option: str, text: str) -> list[int]:
    try:
        return sorted({int(seed) for seed in text.split(",")})
    except ValueError:
        raise BadInput(f"--{option} lists whole numbers, as in 0,1,2, not {text}.") from None


def _check_needs(data_dir: Path | None) -> None:
    """Say what is missing before anything runs, not hours after."""
    from riskmatch.data import DATASETS

    if find_spec("matplotlib") is None:
        raise BadInput("The figure needs a package: pip install 'riskmatch[figures]'.")
    if cure := DATASETS["colored-mnist"].cure(data_dir):
        raise BadInput(f"MNIST is not on this machine. Fetch it with {cure}.")


def _onward(board: Board, planned: Sequence[Planned], command: str) -> str:
    titles = {run.config.id: run.title for run in planned}
    if board.interrupted:
        at = f"{len(board.done)} of {board.total} runs are done"
        return f"Interrupted; {at}. To go on: {command}"
    id, why = next(iter(board.failed.items()))
    first = f"{titles.get(id, 'an ERM phase')} ({id}): {why.rstrip('.')}"
    number = len(board.failed)
    return f"{number} of {board.total} runs failed; the first: {first}. To try again: {command}"
