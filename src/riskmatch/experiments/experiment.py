"""Declaration of a table or figure of the paper: the runs it needs and the files it writes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from riskmatch.files import write_whole
from riskmatch.report import titles
from riskmatch.report.tables import Table
from riskmatch.runs.records import RunRecord, StoredRun
from riskmatch.sweep.plan import PlannedRun

Budget = Literal["smoke", "laptop", "paper"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
Init = Literal["random", "erm"]
INITS: tuple[Init, ...] = get_args(Init)
"""Initialisations of Table 1: random weights, or those after an ERM phase."""
ExperimentOption = Literal["data", "methods", "seeds", "search_seeds", "init", "preset"]
"""Options that only some experiments take."""
STAND_IN = "colored-digits"
"""Data set that replaces missing ones under the budget smoke."""
SUFFIXES = ("md", "tex", "csv", "png", "pdf", "json")
"""Those of the files of experiments."""
RUNS = "runs"
"""Folder of the run records, inside the output folder."""


@dataclass(frozen=True)
class Scope:
    """How much of an experiment to run, and on which data sets."""

    budget: Budget
    data: tuple[str, ...]
    """Data sets to run on: the available ones of the experiment, or else ``STAND_IN``."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Data sets of the experiment that are left out, each with the reason or the cure."""
    methods: Sequence[str] | None = None
    """Methods to run; None for those of the budget."""
    seeds: Sequence[int] | None = None
    """Seeds to run; None for those of the budget."""
    search_seeds: Sequence[int] | None = None
    """Seeds that run the whole grid; the others run only the values selected on these."""
    inits: tuple[Init, ...] = INITS
    preset: str | None = None
    """Preset of the runs on images; None for the budget's."""

    @property
    def uses_stand_in(self) -> bool:
        """Whether digits replace the data sets of the experiment."""
        return self.data == (STAND_IN,)

    @property
    def data_note(self) -> str:
        """Sentence on data sets that were replaced or left out; empty if there are none.

        Example:
            >>> Scope("laptop", ("pacs",), {"vlcs": "riskmatch data get vlcs"}).data_note
            'Not included: VLCS (riskmatch data get vlcs).'
        """
        return self.stand_in_note or self.unavailable_note

    @property
    def stand_in_note(self) -> str:
        """Sentence that names the stand-in data; empty if there is none."""
        names = ", ".join(titles.DATA[name] for name in self.unavailable)
        note = f"Trained on {STAND_IN} (scikit-learn's handwritten digits) instead of {names}."
        return note if self.uses_stand_in else ""

    @property
    def unavailable_note(self) -> str:
        """Sentence that lists the data sets left out; empty if there are none."""
        reasons = (f"{titles.DATA[name]} ({why})" for name, why in self.unavailable.items())
        left_out = self.unavailable and not self.uses_stand_in
        return f"Not included: {', '.join(reasons)}." if left_out else ""


@dataclass(frozen=True)
class FinishedRuns:
    """Runs of an experiment, from which it writes its files."""

    name: str
    """Name of the experiment."""
    scope: Scope
    planned: Sequence[PlannedRun]
    records: Mapping[str, RunRecord]
    """Records of the planned runs that are done, by run id."""
    out: Path
    """Output folder."""
    command: str
    """Command that reproduces the files."""
    data_dir: Path | None = None
    """Folder to search first for the files of data sets."""

    @property
    def runs(self) -> Path:
        """Folder that holds the folders of the runs."""
        return self.out / RUNS

    @property
    def stored(self) -> list[StoredRun]:
        """The planned runs with their records, if all are done."""
        ids = (run.config.id for run in self.planned)
        return [StoredRun(self.runs / id, self.records[id]) for id in ids]

    def file(self, suffix: str) -> Path:
        """Path of the output file with this suffix; its name says if stand-in data was used."""
        on = f"-on-{STAND_IN}" if self.scope.uses_stand_in else ""
        return self.out / f"{self.name}{on}.{suffix}"

    def write(self, texts: Mapping[str, str]) -> list[Path]:
        """Write texts by suffix to the output files, and return their paths."""
        for suffix, text in texts.items():
            write_whole(self.file(suffix), text.encode())
        return [self.file(suffix) for suffix in texts]

    def write_tables(
        self, paragraphs: Sequence[str], tables: Sequence[Table], numbers: Table, text: str
    ) -> Output:
        """Write tables as Markdown, LaTeX and CSV.

        Args:
            paragraphs: paragraphs of the Markdown, tables included.
            tables: tables of the LaTeX.
            numbers: table of the CSV, and of the output's values.
            text: summary for the terminal.
        """
        texts = {
            "md": "\n\n".join(paragraphs) + "\n",
            "tex": "\n\n".join(table.latex() for table in tables) + "\n",
            "csv": numbers.csv(),
        }
        return Output(self.write(texts), text, list(csv.DictReader(texts["csv"].splitlines())))


def run_ids(out: Path) -> set[str]:
    """Ids of the runs in an output folder."""
    return {path.name for path in (out / RUNS).iterdir()} if (out / RUNS).is_dir() else set()


@dataclass(frozen=True)
class Output:
    """Files of an experiment and their content."""

    files: Sequence[Path]
    text: str
    """Summary for the terminal."""
    values: Any
    """Numbers as plain JSON."""


@dataclass(frozen=True)
class Outcome:
    """What :func:`~riskmatch.experiments.reproduce` or ``demo`` achieved."""

    output: Output | None
    """Files written; None if too few runs are done."""
    error: str | None = None
    """Why the output is missing or incomplete, in one line; None if it is complete."""
    interrupted: bool = False
    """Whether training was interrupted, as by Ctrl-C."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Errors of the failed runs, by run id."""

    def to_json(self) -> dict[str, Any]:
        """Files, numbers and errors as plain JSON."""
        files = [str(path) for path in self.output.files] if self.output else []
        values = self.output.values if self.output else None
        return {"files": files, "result": values, "failed": dict(self.failed)}


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    paper: str
    """Number in the paper, such as Table 2 or Figure 3a."""
    summary: str
    data: tuple[str, ...]
    """Data sets of the experiment; a part of them is enough."""
    plan: Callable[[Scope], Sequence[PlannedRun]]
    """Lists the runs without loading data; raises ``ValueError`` if there are none."""
    write: Callable[[FinishedRuns], Output]
    """Writes the files."""
    options: tuple[ExperimentOption, ...] = ()
    """Options that the experiment takes."""
    refine: Callable[[Scope, Mapping[str, RunRecord]], Sequence[PlannedRun]] | None = None
    """Lists all runs, if some depend on the records of those that ``plan`` lists."""
    count: Callable[[Scope], int] | None = None
    """Counts the runs, if planning them takes long."""
    partial: bool = True
    """Whether files can be written before every run is done."""
    predictions: bool = False
    """Whether the runs keep the predictions of every sample."""

    @property
    def alias(self) -> str:
        """Name by the number in the paper.

        Example:
            >>> from riskmatch.experiments import EXPERIMENTS
            >>> EXPERIMENTS["pacs"].alias, EXPERIMENTS["fig3a"].alias
            ('table7', 'fig3a')
        """
        return re.sub(r"figure\s*", "fig", self.paper.lower()).replace(" ", "")

    def run_count(self, scope: Scope) -> int:
        """Number of runs before any is trained."""
        return self.count(scope) if self.count else len(self.plan(scope))
