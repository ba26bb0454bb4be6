"""Options of runs and launchers, which several commands have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from riskmatch.cli.errors import bad_input
from riskmatch.cli.options import Option, options_of
from riskmatch.cli.parser import Parser, parse_groups
from riskmatch.runs.config import RunConfig

if TYPE_CHECKING:
    from riskmatch.sweep import Launcher

Command = TypeVar("Command")
DERIVED = ("data", "method", "hparams", "source")
"""Fields of a run that are no options of it."""
PLANNED = ("test_domains", "seed", "trial")
"""Fields that differ between the runs of a plan."""


@dataclass(frozen=True)
class TableColumns:
    """Options that name the columns of a table, a CSV or Parquet file."""

    label: str | None = None
    """Column of the class, or of the target of a regression."""
    domain: str | None = None
    """Column of the domain."""
    ignore: tuple[str, ...] = ()
    """Column to leave out."""

    @property
    def data_options(self) -> dict[str, Any]:
        """Those that are given, as options of the data set."""
        given = {"label": self.label, "domain": self.domain, "ignore": list(self.ignore)}
        return {name: value for name, value in given.items() if value}


def run_options(excluded: Sequence[str] = ()) -> Iterator[Option]:
    """Options for the fields of a run but those in ``excluded``."""
    for option in options_of(RunConfig):
        if option.name not in (*DERIVED, *excluded):
            yield replace(option, negatable=option.type_ is bool)


def parse_planned(
    command: type[Command], name: str, words: Sequence[str]
) -> tuple[Command, dict[str, Any]]:
    """Parse a command that plans runs; also return the fields that are given for all of them."""
    run = [replace(option, default=None) for option in run_options(PLANNED)]
    groups = {"run": run, "table": options_of(TableColumns)}
    options, given = parse_groups(command, name, words, groups)
    return options, with_columns(given)


def with_columns(given: dict[str, Any]) -> dict[str, Any]:
    """Values that are given, with the columns of a table among the options of the data set."""
    names = [item.name for item in fields(TableColumns) if item.name in given]
    columns = TableColumns(**{name: given.pop(name) for name in names}).data_options
    return {**given, "data_options": {**given.get("data_options", {}), **columns}}


def parse_with_launcher(
    command: type[Command], name: str, words: Sequence[str]
) -> tuple[Command, Launcher]:
    """Parse a command whose options include those of the launcher that it names."""
    from riskmatch.sweep.launchers import launcher_class

    named = [option for option in options_of(command) if option.name == "launcher"]
    launcher = Parser("", "", named, help=False).parse_known(words).get("launcher", "local")
    with bad_input():
        cls = launcher_class(launcher)
        options, given = parse_groups(command, name, words, {"launching": options_of(cls)})
        return options, cls(**given)
