"""``riskmatch reproduce``: the paper's tables and figures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch.cli.errors import BadInput, RunFailed, check_name
from riskmatch.cli.options import Option
from riskmatch.cli.parser import Parser

if TYPE_CHECKING:
    from riskmatch.experiments.board import Board
    from riskmatch.experiments.table1 import Planned

BUDGETS = """\
budgets
  smoke    a small network and few digits: shows within a minute that everything works
  laptop   the paper's sizes, three seeds, one value of every grid; all methods but MMD
  paper    everything: ten seeds, whole grids

example
  riskmatch reproduce table1 --budget smoke"""


def run(argv: Sequence[str]) -> int:
    """Reproduce a table or a figure, or say which there are."""
    parser = _parser()
    names, given = parser.parse(argv)
    if "help" in given or not (names or "list" in given):
        print(parser.format_help(), end="")
        return 0
    from riskmatch.experiments.catalogue import EXPERIMENTS

    if "list" in given:
        _list({name: entry.summary for name, entry in EXPERIMENTS.items()}, "json" in given)
        return 0
    if len(names) != 1:
        raise BadInput(f"One thing at a time, not {' and '.join(names)}.")
    check_name("table or figure", names[0], EXPERIMENTS)
    if "budget" not in given:
        raise BadInput("How much? Give --budget smoke, laptop or paper.")
    _reproduce(names[0], given, shlex.join(["riskmatch", "reproduce", *argv]))
    return 0


def _parser() -> Parser:
    parser = Parser(
        "reproduce",
        "NAME --budget smoke|laptop|paper [options]",
        "Reproduce a table or a figure of the paper. The same command again goes on with what was\n"
        "interrupted, and runs nothing twice.",
        BUDGETS,
    )
    options = [
        Option("list", bool, "What can be reproduced"),
        Option("budget", Literal["smoke", "laptop", "paper"], "How much to run"),
        Option("methods", str, "Some of the methods, as in rdm,vrex"),
        Option("seeds", str, "Seeds in place of the budget's, as in 0,1,2"),
        Option("init", Literal["random", "erm", "both"], "Where methods start from", "both"),
        Option("out", Path, "Where to; by default reproduce, or reproduce-smoke"),
        Option("jobs", int, "Runs at a time; by default one per core, if memory allows"),
        Option("data_dir", Path, "A folder in which to look for MNIST first"),
        Option("quiet", bool, "Print nothing but errors"),
        Option("json", bool, "Print the result as JSON"),
        Option("help", bool, "This text"),
    ]
    parser.add("options", options)
    return parser


def _list(summaries: dict[str, str], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summaries, indent=2))
        return
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        print(f"{name:<{width}}   {summary}")


def _reproduce(name: str, given: dict[str, Any], command: str) -> None:
    from riskmatch.cli.board import Shown
    from riskmatch.experiments.catalogue import EXPERIMENTS
    from riskmatch.experiments.running import run_all

    experiment, budget = EXPERIMENTS[name], given["budget"]
    planned = _planned(name, given)
    data_dir = given.get("data_dir")
    _check_needs(data_dir)
    out = given.get("out", Path("reproduce-smoke" if budget == "smoke" else "reproduce"))
    with Shown(planned, quiet="quiet" in given) as shown:
        board = run_all(
            [run.config for run in planned],
            out / "runs",
            jobs=given.get("jobs"),
            data_dir=data_dir,
            on_change=shown,
        )
    unfinished = bool(board.failed or board.waiting)
    if experiment.partial or not unfinished:
        result = experiment.write(planned, out, budget, _essence(name, given), data_dir)
        if "json" in given:
            values = {"files": [str(path) for path in result.files], "result": result.values}
            print(json.dumps({**values, "failed": board.failed}, indent=2))
        elif "quiet" not in given:
            print(result.text, end="\n\n")
            print("\n".join(map(str, result.files)))
    if unfinished:
        raise RunFailed(_onward(board, planned, command))


def _essence(name: str, given: dict[str, Any]) -> str:
    """The command without what the result does not depend on."""
    kept = [o for o in ("budget", "methods", "seeds", "init") if o in given]
    return " ".join(["riskmatch reproduce", name, *(f"--{o} {given[o]}" for o in kept)])


def _planned(name: str, given: dict[str, Any]) -> list[Planned]:
    from riskmatch.experiments.catalogue import EXPERIMENTS
    from riskmatch.experiments.rows import INITS, METHODS

    methods = given["methods"].split(",") if "methods" in given else None
    for method in methods or ():
        check_name("method of the table", method, METHODS)
    init = given.get("init", "both")
    if given.get("jobs", 1) < 1:
        raise BadInput(f"--jobs is a number of runs, one or more, not {given['jobs']}.")
    try:
        seeds = (
            sorted({int(seed) for seed in given["seeds"].split(",")}) if "seeds" in given else None
        )
    except ValueError:
        raise BadInput(f"--seeds lists whole numbers, as in 0,1,2, not {given['seeds']}.") from None
    try:
        return EXPERIMENTS[name].plan(
            given["budget"], methods, seeds, INITS if init == "both" else (init,)
        )
    except ValueError as error:
        raise BadInput(str(error)) from error


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
