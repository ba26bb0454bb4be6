"""Commands as dataclasses, their words parsed with argparse; errors are one line."""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from riskmatch.cli.errors import BadInput, Ended, unknown
from riskmatch.cli.options import Option, options_of
from riskmatch.runs.config import RunConfig

if TYPE_CHECKING:
    from typing_extensions import Self

    from riskmatch.sweep import Launcher

DERIVED = ("data", "method", "hparams", "source")
"""Fields of a run that are no options of it."""
PLANNED = ("test_domains", "seed", "trial")
"""Fields that differ between the runs of a plan."""


class Command(ABC):
    """Base class of commands, which are dataclasses.

    Fields are options; one without a default must be given. The docstring is the help.
    """

    line: str
    """The command line, to copy."""
    given: dict[str, Any]
    """Given values of the options of :meth:`groups`."""

    help_without_words: ClassVar[bool] = False
    """Whether the command without words prints its help."""

    @abstractmethod
    def execute(self) -> int | None:
        """Call the library and print; an exit code other than 0 is returned."""

    @classmethod
    def help(cls) -> str:
        """Text of ``--help`` above the options."""
        return inspect.getdoc(cls) or ""

    @classmethod
    def groups(cls, words: Sequence[str]) -> Mapping[str, Iterable[Option]]:
        """Further groups of options by title; ``words`` may decide which there are."""
        return {}

    @classmethod
    def parse(cls, name: str, words: Sequence[str]) -> Self:
        """Parse the words after ``riskmatch NAME``."""
        options = options_of(cls)
        parser = Parser(f"riskmatch {name}", cls.help(), options)
        for title, group in cls.groups(words).items():
            parser.add(title, group)
        given = parser.parse(words or ["--help"] * cls.help_without_words)
        for option in options:
            if option.required and option.name not in given:
                raise BadInput(f"{parser.prog} needs {option.label}: {option.help}")
        command = cls(**{o.name: given.pop(o.name) for o in options if o.name in given})
        command.line = shlex.join(["riskmatch", *name.split(), *words])
        command.given = given
        return command

    def arguments(self, *excluded: str) -> dict[str, Any]:
        """Values of the options by name, as arguments of the function that the command calls.

        Those that control what is printed, that have no value, or that are in ``excluded``, are
        left out.
        """
        names = {item.name for item in fields(self)}  # type: ignore[arg-type]
        values = {n: getattr(self, n) for n in names - {"quiet", "json", *excluded}}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(kw_only=True)
class Quiet:
    """The option of commands that show progress or results."""

    quiet: bool = False
    """Print nothing but errors."""


@dataclass(kw_only=True)
class Printed(Quiet):
    """Options of commands whose result can be printed as JSON."""

    json: bool = False
    """Print the result as JSON."""


@dataclass(kw_only=True)
class Compared:
    """Options of commands that compare runs."""

    metric: str | None = None
    """Metric to compare, such as auroc; by default the primary one of the runs."""
    worst: bool = False
    """Also show the worst test domain of every method."""
    by: list[str] | None = None
    """Comma-separated columns of the data, such as sex,site: also show the metric by group of
    their values, or in tables the worst group of at least 10 samples. Groups are those of samples
    of test domains, from stored predictions or checkpoints."""
    data_dir: Path | None = None
    """Folder searched first for the data set, where its samples are needed."""
    unit: Literal["domains", "new-domain"] = "domains"
    """What intervals and p-values of gains generalise over: these domains, of which trials are
    drawn, or a new domain, drawn as those tested were."""


@dataclass(kw_only=True)
class TableColumns:
    """Options that name columns of a table, a CSV or Parquet file, or a list of images; groups."""

    label: tuple[str, ...] = ()
    """Column of the label, of a table or a list of images: of the class, of the number, or of lists
    of tags; several, with commas between them, are a tag each."""
    domain: str | None = None
    """Column of the domain."""
    ignore: tuple[str, ...] = ()
    """Column to leave out."""
    group: str | None = None
    """Column of a group, such as a patient, whose samples are on one side of every split, in all
    domains: of a table, of a list of images or of a file of features; stem, the file's name without
    extension, for images in folders."""
    drop_missing_labels: bool = False
    """Leave out the rows of a table or a list of images without a label, which are counted."""
    skip_unreadable: bool = False
    """Leave out images that cannot be read, which are listed."""

    @property
    def data_options(self) -> dict[str, Any]:
        """Those that are given, as options of the data set."""
        label = self.label[0] if len(self.label) == 1 else list(self.label)
        given = {item.name: getattr(self, item.name) for item in fields(TableColumns)}
        given |= {"label": label, "ignore": list(self.ignore)}
        return {name: value for name, value in given.items() if value}


class PlanningCommand(Command):
    """A command that plans runs: fields of a run are options of all of them."""

    options: Mapping[str, Any]
    """Fields of the methods that have them."""

    @classmethod
    def groups(cls, words: Sequence[str]) -> Mapping[str, Iterable[Option]]:
        """The fields of a run, and the columns of the data."""
        run = [replace(option, default=None) for option in run_options(PLANNED)]
        return {"run": run, "data": options_of(TableColumns)}

    @property
    def choices(self) -> dict[str, Any]:
        """Fields of the runs or of their methods that are given."""
        return {**self.options, **with_columns(self.given)}


class LaunchingCommand(Command):
    """A command whose options include those of the launcher that it names."""

    launcher: str
    """Name of the launcher."""

    @classmethod
    def groups(cls, words: Sequence[str]) -> Mapping[str, Iterable[Option]]:
        """The fields of the launcher."""
        from riskmatch.sweep.launchers import launcher_class

        named = [option for option in options_of(cls) if option.name == "launcher"]
        name = Parser("", "", named, help=False).parse_known(words).get("launcher", "local")
        return {"launching": options_of(launcher_class(name))}

    def make_launcher(self) -> Launcher:
        """The launcher with its options."""
        from riskmatch.sweep.launchers import launcher_class

        return launcher_class(self.launcher)(**self.given)


def run_options(excluded: Sequence[str] = ()) -> Iterator[Option]:
    """Options for the fields of a run but those in ``excluded``."""
    for option in options_of(RunConfig):
        if option.name not in (*DERIVED, *excluded):
            type_ = list[str] if option.name == "metrics" else option.type_  # not another --metric
            yield replace(option, type_=type_, negatable=type_ is bool)


def with_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are given, with the columns of a table among the options of the data set."""
    names = {item.name for item in fields(TableColumns)}
    columns = TableColumns(**{name: given[name] for name in names & given.keys()}).data_options
    others = {name: value for name, value in given.items() if name not in names}
    return {**others, "data_options": {**given.get("data_options", {}), **columns}}


class Parser(argparse.ArgumentParser):
    """Parses words into the values that were given, without defaults."""

    def __init__(self, prog: str, text: str, options: Iterable[Option], help: bool = True) -> None:
        self.options = list(options)
        """Options of all groups."""
        self.hints: Mapping[str, str] = {}
        """Errors for flags that belong elsewhere, by flag."""
        names = " ".join(option.label for option in self.options if option.positional)
        super().__init__(
            prog,
            f"{prog} [options] {names}",
            text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            add_help=help,
            allow_abbrev=False,
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # as in Python 3.14: also -1e4
        for option in self.options:
            option.add_to(self)

    def add(self, title: str, options: Iterable[Option]) -> None:
        """Add a group of options under a title.

        Raises:
            ValueError: there is an option of the same name already.
        """
        group = self.add_argument_group(f"{title} options")
        for option in options:
            try:
                option.add_to(group)
            except argparse.ArgumentError:
                message = f"{self.prog} has two options {option.label}; rename one."
                raise ValueError(message) from None
            self.options.append(option)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Values that were given, by name. ``--help`` prints the help and ends the command."""
        # Intermixed, so that names may follow options; then Python knows no words after "--".
        parse = self.parse_known_args if "--" in words else self.parse_known_intermixed_args
        parsed, rest = parse(list(words))
        for flag in (word.partition("=")[0] for word in rest if re.match("--?[A-Za-z]", word)):
            if flag in self.hints:
                raise BadInput(self.hints[flag])
            raise unknown("option", flag, self._option_string_actions, self.prog)
        given = self._collected(parsed)
        if rest:
            positional = [option for option in self.options if option.positional]
            got = " ".join([*(str(given[o.name]) for o in positional if o.name in given), *rest])
            takes = " ".join(option.label for option in positional) or "no name"
            raise BadInput(f"{self.prog} takes {takes}, got {got}. See {self.prog} --help.")
        return given

    def parse_known(self, words: Sequence[str]) -> dict[str, Any]:
        """Values that were given for the options of this parser; other words are ignored."""
        return self._collected(self.parse_known_args(list(words))[0])

    def _collected(self, parsed: argparse.Namespace) -> dict[str, Any]:
        given, options = vars(parsed), {option.name: option for option in self.options}
        absent = {o.name for o in self.options if o.positional and not given.get(o.name)}
        return {n: options[n].collect(value) for n, value in given.items() if n not in absent}

    def error(self, message: str) -> NoReturn:
        """Raise the error that argparse would print."""
        flag, _, cause = message.removeprefix("argument ").partition(": ")
        causes = {"expected": f"{flag} needs a value.", "ignored": f"{flag} takes no value."}
        cause = causes.get(cause.partition(" ")[0], cause)
        raise BadInput(f"{cause} See {self.prog} --help.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the command after its help."""
        raise Ended
