"""What a table or a figure of the paper declares, so that one command runs them all.

An experiment says which runs it needs and how it is written from their records. Whoever runs it
(the command ``riskmatch reproduce``) finds the data, trains what is not yet done and calls it. All
experiments of one folder share its runs, because a run is told by its configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

from riskmatch.experiments.rows import INITS, Init
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord

Budget = Literal["smoke", "laptop", "paper"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
Option = Literal["data", "methods", "seeds", "search_seeds", "init"]
"""What only some experiments take."""
STAND_IN = "colored-digits"
"""What the budget smoke runs on where images are not here: real digits that come in a package."""
RUNS = "runs"
"""The folder of the records, below that of the results."""


class Planned(Protocol):
    """A run of an experiment, which may know more of its place there."""

    @property
    def config(self) -> RunConfig:
        """All of it."""

    @property
    def title(self) -> str:
        """It in a line."""


Run = TypeVar("Run", bound=Planned)


@dataclass(frozen=True)
class Request:
    """What is wanted of an experiment, on this machine."""

    budget: Budget
    data: tuple[str, ...]
    """The data sets to run on: those of the experiment that are here, or else ``STAND_IN``."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The others, each with the command that would get it."""
    methods: tuple[str, ...] | None = None
    """In place of the budget's."""
    seeds: tuple[int, ...] | None = None
    """In place of the budget's."""
    search_seeds: tuple[int, ...] | None = None
    """Those on which whole grids run; on the others, only what these choose."""
    inits: tuple[Init, ...] = INITS

    @property
    def stands_in(self) -> bool:
        """Whether the data is not the experiment's own."""
        return self.data == (STAND_IN,)


@dataclass(frozen=True)
class Finished(Generic[Run]):
    """What an experiment is written from."""

    name: str
    request: Request
    planned: Sequence[Run]
    records: Mapping[str, RunRecord]
    """Of those runs that are done, by id."""
    out: Path
    """The folder for files."""
    command: str
    """What the files come from."""
    data_dir: Path | None = None
    """A folder in which to look for the files of data sets first."""

    @property
    def runs(self) -> Path:
        """The folder of the runs, for whoever needs more than records."""
        return self.out / RUNS

    def file(self, suffix: str) -> Path:
        """The file with this suffix; its name tells where the data is not the experiment's own."""
        on = f"-on-{STAND_IN}" if self.request.stands_in else ""
        return self.out / f"{self.name}{on}.{suffix}"


@dataclass(frozen=True)
class Result:
    """What an experiment has to show."""

    files: Sequence[Path]
    text: str
    """For the terminal."""
    values: Any
    """As plain JSON."""


@dataclass(frozen=True)
class Experiment(Generic[Run]):
    """A table or a figure of the paper."""

    paper: str
    """Its number there, as in Table 2 or Figure 3a."""
    summary: str
    data: tuple[str, ...]
    """The data sets it is about; it can do with some of them."""
    plan: Callable[[Request], Sequence[Run]]
    """The runs; ``ValueError`` where there can be none. Nothing is loaded or trained for it."""
    write: Callable[[Finished[Run]], Result]
    """Files below ``Finished.out``, and what they say."""
    options: tuple[Option, ...] = ()
    """Those that it takes."""
    refine: Callable[[Request, Mapping[str, RunRecord]], Sequence[Run]] | None = None
    """All runs, where which they are depends on the records of those that ``plan`` gave."""
    count: Callable[[Request], int] | None = None
    """How many runs, where planning them all takes long."""
    partial: bool = True
    """Whether it can be shown before every run is done."""
    draws: bool = False
    """Whether it needs matplotlib."""
    predictions: bool = False
    """Whether its runs keep predictions of every sample, see ``riskmatch.runs.predictions``."""

    @property
    def alias(self) -> str:
        """What it is also called: by its number.

        Example:
            >>> nothing = Result([], "", None)
            >>> Experiment("Figure 3a", "a gap", (), lambda _: [], lambda _: nothing).alias
            'fig3a'
        """
        return re.sub(r"figure\s*", "fig", self.paper.lower()).replace(" ", "")

    def runs(self, request: Request) -> int:
        """How many runs it takes, before any of them is trained."""
        return self.count(request) if self.count else len(self.plan(request))
