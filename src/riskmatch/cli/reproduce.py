"""``riskmatch reproduce``: reproduce the paper's tables and figures."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import riskmatch
from riskmatch.cli.errors import BadInput, RunFailed
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import Column, print_json, print_table, printable
from riskmatch.cli.progress import SweepDisplay

Budget = Literal["smoke", "laptop", "paper"]
Names = list[str]
Numbers = list[int]
ALL = "all"
SINGLE = ("data", "methods", "seeds", "search_seeds", "init", "preset")
"""Options of single tables and figures, which do not go with ``all``."""


@dataclass
class Reproduce(Printed, Command):
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
    data: Names | None = None
    """Some of the data sets, such as pacs,vlcs."""
    methods: Names | None = None
    """Methods to run, such as rdm,vrex; on images also your own, as package.module:Name."""
    seeds: Numbers | None = None
    """Seeds in place of the budget's, such as 0,1,2."""
    search_seeds: Numbers | None = None
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

    help_without_words: ClassVar[bool] = True

    def execute(self) -> None:
        """Reproduce a table or figure, or list them."""
        if self.list:
            self._list()
        elif self.name is None:
            raise BadInput("Give the NAME of a table or figure, or all; --list shows the names.")
        elif self.name == ALL and self.budget is None:
            raise BadInput("Give --budget smoke, laptop or paper.")
        else:
            (self._reproduce_all if self.name == ALL else self._reproduce)()

    def _reproduce(self) -> None:
        with SweepDisplay(quiet=self.quiet) as display:
            outcome = riskmatch.reproduce(**self.arguments("list"), **_callbacks(display))
        if outcome.output is not None:
            if self.json:
                print_json(outcome.to_json())
            elif not self.quiet:
                print(outcome.output.text, end="\n\n")
                print("\n".join(map(printable, outcome.output.files)))
        if outcome.error:
            action = "continue" if outcome.interrupted else "try again"
            raise RunFailed(f"{outcome.error} To {action}: {self.line}")

    def _reproduce_all(self) -> None:
        for option in SINGLE:
            if getattr(self, option) != getattr(Reproduce, option):
                flag = option.replace("_", "-")
                raise BadInput(f"all does not take --{flag}; name a single table or figure.")
        results: dict[str, Any] = {}
        failed = []
        display = SweepDisplay(quiet=self.quiet)

        def start(name: str, number: int, total: int) -> None:
            if not self.quiet:
                print(f"[{number}/{total}] {name}", file=sys.stderr, flush=True)

        common = self.arguments("name", "list", *SINGLE)
        outcomes = riskmatch.reproduce_all(**common, on_start=start, **_callbacks(display))
        for name, outcome in outcomes:
            display.close()
            if outcome.output is not None:
                results[name] = outcome.to_json()
                if not (self.quiet or self.json):
                    print("\n".join(map(printable, outcome.output.files)), flush=True)
            if outcome.error:
                print(f"riskmatch: {name}: {printable(outcome.error)}", file=sys.stderr)
                failed.append(name)
        if self.json:
            print_json(results)
        if failed:
            raise RunFailed(f"Incomplete: {', '.join(failed)}. To continue: {self.line}")

    def _list(self) -> None:
        infos = riskmatch.list_experiments(self.data_dir)
        if self.json:
            print_json({info.name: asdict(info) for info in infos})
            return
        print_table(_COLUMNS, infos)
        cures = {name: cure for info in infos for name, cure in info.data.items() if cure}
        if cures:
            print("\nData to get:", *map(": ".join, cures.items()), sep="\n  ")
        print(f"\n{STAND_IN}")


STAND_IN = "If no data set is available, the budget smoke uses scikit-learn's handwritten digits."
_COLUMNS = [
    Column("name", lambda info: info.name),
    Column("shows", lambda info: f"{info.paper}: {info.summary}"),
    Column("data", lambda info: ", ".join(info.data)),
    Column(
        "runs of smoke,\nlaptop, paper",
        lambda info: " ".join(map("{:,}".format, info.runs.values())),
    ),
]


def _callbacks(display: SweepDisplay) -> dict[str, Any]:
    return {
        **display.callbacks,
        "on_plan": lambda scope, runs: display.plan(runs, scope.data_note),
    }
