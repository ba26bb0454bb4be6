"""``riskmatch reproduce``: reproduce the paper's tables and figures."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Literal

import riskmatch
from riskmatch.cli.errors import BadInput, RunFailed, bad_input
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import print_json, printable
from riskmatch.cli.progress import SweepDisplay

Budget = Literal["smoke", "laptop", "paper"]
ALL = "all"
COMMON = ("out", "as_is", "overwrite", "jobs", "data_dir", "device")
"""Options that go with ``all``, too."""


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or figure of the paper, or all of them.

    The same command again continues after an interruption and trains no run twice. All results in
    one folder share their runs, also with riskmatch sweep.

    Budgets:
      smoke    small networks, few methods and steps: checks within a minute that everything works
      laptop   ColoredMNIST at the paper's sizes, with three seeds and one value of every grid;
               images: heads on the features of a frozen backbone, 5 draws × 3 trials of all
               methods, 1,000 steps
      paper    everything: ten seeds and whole grids; ResNet-50 fine-tuned, 20 draws × 10 trials

    Example:
      riskmatch reproduce table1 --budget smoke
    """

    name: Positional[str | None] = None
    """Table or figure, such as table1, pacs or fig3a, or all; --list shows them."""
    list: bool = False
    """List the tables and figures, the data they need and the number of runs."""
    budget: Budget | None = None
    """How much to run."""
    data: str | None = None
    """Some of the data sets, such as pacs,vlcs."""
    methods: str | None = None
    """Methods to run, such as rdm,vrex; on images also your own, as package.module:Name."""
    seeds: str | None = None
    """Seeds in place of the budget's, such as 0,1,2."""
    search_seeds: str | None = None
    """Seeds that run whole grids; the others run only the values selected on these."""
    init: Literal["random", "erm", "both"] = "both"
    """Initialisation of the methods of Table 1."""
    preset: str | None = None
    """Preset of runs on images: paper or authors-code; by default authors-code for the budget
    paper, else none."""
    as_is: bool = False
    """Train nothing; use the runs that are done."""
    out: Path | None = None
    """Output folder; default: reproduce, or reproduce-smoke."""
    overwrite: bool = False
    """Replace files of the same names that were made from other runs, or not by riskmatch."""
    jobs: int | None = None
    """Runs at a time; default: one per core if memory allows, and one for the budget smoke."""
    data_dir: Path | None = None
    """Folder to search first for data sets."""
    device: str = "auto"
    """Device to train on: cpu, cuda:1, …; auto is a GPU if there is one."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the result as JSON."""


def run(words: Sequence[str]) -> int:
    """Reproduce a table or figure, or list them."""
    options = parse(Reproduce, "reproduce", words or ["--help"])
    if options.list:
        _list(options)
        return 0
    if options.name is None:
        raise BadInput("Give the NAME of a table or figure, or all; --list shows the names.")
    command = shlex.join(["riskmatch", "reproduce", *words])
    if options.name != ALL:
        _reproduce(options.name, options, command)
    elif options.budget is None:
        raise BadInput("Give --budget smoke, laptop or paper.")
    else:
        _reproduce_all(options.budget, options, command)
    return 0


def _reproduce(name: str, options: Reproduce, command: str) -> None:
    with bad_input(), SweepDisplay(quiet=options.quiet) as display:
        outcome = riskmatch.reproduce(
            name,
            options.budget,
            data=_words(options.data),
            methods=_words(options.methods),
            seeds=_integers("seeds", options.seeds),
            search_seeds=_integers("search-seeds", options.search_seeds),
            init=options.init,
            preset=options.preset,
            **_common(options, display),
        )
    if options.json:
        if outcome.output is not None:
            print_json(outcome.to_json())
    elif outcome.output is not None and not options.quiet:
        print(outcome.output.text, end="\n\n")
        print("\n".join(map(printable, outcome.output.files)))
    if outcome.error:
        action = "continue" if outcome.interrupted else "try again"
        raise RunFailed(f"{outcome.error} To {action}: {command}")


def _reproduce_all(budget: Budget, options: Reproduce, command: str) -> None:
    for option in ("data", "methods", "seeds", "search_seeds", "init", "preset"):
        if getattr(options, option) != getattr(Reproduce, option):
            flag = option.replace("_", "-")
            raise BadInput(f"all does not take --{flag}; name a single table or figure.")
    results: dict[str, Any] = {}
    failed: list[str] = []
    display = SweepDisplay(quiet=options.quiet)

    def start(name: str, number: int, total: int) -> None:
        if not options.quiet:
            print(f"[{number}/{total}] {name}", file=sys.stderr, flush=True)

    outcomes = riskmatch.reproduce_all(budget, on_start=start, **_common(options, display))
    for name, outcome in outcomes:
        display.close()
        if outcome.output is not None:
            results[name] = outcome.to_json()
            if not (options.quiet or options.json):
                print("\n".join(map(printable, outcome.output.files)), flush=True)
        if outcome.error:
            print(f"riskmatch: {name}: {printable(outcome.error)}", file=sys.stderr)
            failed.append(name)
    if options.json:
        print_json(results)
    if failed:
        raise RunFailed(f"Incomplete: {', '.join(failed)}. To continue: {command}")


def _common(options: Reproduce, display: SweepDisplay) -> dict[str, Any]:
    """Arguments of both ``reproduce`` and ``reproduce_all``."""
    return {
        **{name: getattr(options, name) for name in COMMON},
        "on_plan": lambda scope, runs: display.plan(runs, scope.data_note),
        "on_change": display.change,
        "on_progress": display.progress,
    }


def _list(options: Reproduce) -> None:
    infos = riskmatch.list_experiments(options.data_dir)
    if options.json:
        values = {info.name: asdict(info) for info in infos}
        print_json(values)
        return
    margin = max(len(info.name) for info in infos) + 2
    for info in infos:
        needs = ", ".join(f"{name} ({cure or 'available'})" for name, cure in info.data.items())
        runs = ", ".join(f"{budget} {number:,}" for budget, number in info.runs.items())
        lines = [f"{info.paper}: {info.summary}", f"data: {needs}", f"runs: {runs}"]
        for line, label in zip(lines, (info.name, "", ""), strict=True):
            print(_wrapped(line, label, margin))
    print("\nIf no images are available, the budget smoke uses scikit-learn's handwritten digits.")


def _wrapped(line: str, label: str, margin: int) -> str:
    """A line beside its label, wrapped to the width of the terminal."""
    return textwrap.fill(
        line,
        max(60, get_terminal_size().columns),
        initial_indent=label.ljust(margin),
        subsequent_indent=" " * (margin + 2),
        break_long_words=False,
    )


def _words(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


def _integers(option: str, text: str | None) -> list[int] | None:
    try:
        return sorted({int(word) for word in text.split(",")}) if text else None
    except ValueError:
        raise BadInput(f"--{option} must be integers such as 0,1,2, got {text}.") from None
