"""Parse the words of a command with tyro; errors are one line."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, make_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import tyro

from riskmatch import trust
from riskmatch.cli.errors import BadInput, HelpPrinted, check_name, unknown
from riskmatch.cli.options import Option, options_of
from riskmatch.files import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Command = TypeVar("Command")


def parse(
    command: type[Command],
    name: str,
    words: Sequence[str],
    aliases: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    text: str | None = None,
) -> Command:
    """Parse the words after ``riskmatch NAME`` into a value of the dataclass ``command``.

    Its fields are the options; one without a default must be given. ``aliases`` are further
    spellings, by field. The help is ``text``, by default the docstring of ``command``.
    """
    options = [replace(o, aliases=aliases.get(o.name, ())) for o in options_of(command)]
    parser = Parser(f"riskmatch {name}", text or inspect.getdoc(command) or "", options)
    given = parser.parse(words)
    for option in parser.options:
        if option.required and option.name not in given:
            raise BadInput(f"{parser.prog} needs {option.label}: {option.help}")
    return command(**given)


def call_verb(
    command: str,
    verbs: Mapping[str, Callable[[Sequence[str]], int]],
    words: Sequence[str],
    example: str,
) -> int:
    """Run the verb that the words begin with, as in ``riskmatch data get``.

    Without a verb, print a list of verbs. A verb is a function from the words after it to an exit
    code; its docstring is its line in the list.
    """
    if words and words[0] not in ("-h", "--help"):
        check_name(f"command of riskmatch {command}", words[0], verbs)
        return verbs[words[0]](words[1:])
    width = max(map(len, verbs))
    print(f"usage: riskmatch {command} {'|'.join(verbs)} [options]\n")
    for name, run in verbs.items():
        print(f"  {name:<{width}}   {inspect.getdoc(run)}")
    print(f"\nOptions of each: riskmatch {command} {next(iter(verbs))} --help")
    print(f"\nexample\n  {example}")
    return 0


def toml_words(path: Path) -> list[str]:
    """Read a TOML file as words of the command line; ``data`` is the positional argument.

    Keys are spelt as on the command line, with ``-`` or ``_``; a repeatable option takes a list,
    one of the form KEY=VALUE a table.
    """
    try:
        values = tomllib.loads(read_file(path).decode())
        words = [str(values.pop("data"))] if "data" in values else []
        for key, value in values.items():
            words += _toml_option(key.replace("_", "-"), value)
    except OSError as error:
        raise BadInput(f"--config {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"--config {path} is not TOML: {error}.") from error
    except RecursionError as error:
        raise BadInput(f"--config {path} nests values too deeply. Write them flat.") from error
    except TypeError as error:  # a date, which JSON does not have
        raise BadInput(f"--config {path}: {error}. Write it as a text in quotes.") from error
    except ValueError as error:  # Python converts no longer ones
        raise BadInput(f"--config {path}: a number has thousands of digits; shorten it.") from error
    trust.type_names(words)  # the user typed the name of the file
    return words


def _toml_option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}={key}={json.dumps(entry)}" for key, entry in value.items()]
    return [f"--{name}={entry}" for entry in (value if isinstance(value, list) else [value])]


class Parser:
    """Parses words into the values that were given, without defaults."""

    def __init__(self, prog: str, text: str, options: Iterable[Option]) -> None:
        self.prog, self.text = prog, text
        self.groups: dict[str, list[Option]] = {"": list(options)}
        self.hints: Mapping[str, str] = {}
        """Errors for flags that belong elsewhere, by flag."""

    @property
    def options(self) -> list[Option]:
        """Options of all groups."""
        return [option for group in self.groups.values() for option in group]

    def add(self, title: str, options: Iterable[Option]) -> None:
        """Add a group of options under a title.

        Raises:
            ValueError: there is an option of the same name already.
        """
        known = {option.name for option in self.options}
        self.groups[title] = list(options)
        for option in self.groups[title]:
            if option.name in known:
                raise ValueError(f"{self.prog} has two options {option.label}; rename one.")

    def parse(self, words: Sequence[str], once: bool = False) -> dict[str, Any]:
        """Values that were given, by name. ``--help`` prints the help and ends the process.

        With ``once``, an option that takes one value may not be given several times.
        """
        self._check_flags(words)
        if {"-h", "--help"} & set(_before_dashes(words)):
            words = ["--help"]  # tyro's usage leaves out positional arguments that are given
        flags = [word.partition("=")[0] for word in words]
        for option in self.options if once else ():
            if not option.repeatable and sum(map(flags.count, option.flags)) > 1:
                raise BadInput(f"{option.label} takes one value, not a list.")
        given, rest = self._parse(words)
        for option in self.options:
            if option.positional and given.get(option.name) == "":
                raise BadInput(f"{option.label} is empty. See {self.prog} --help.")
        if rest:
            positional = [option for option in self.options if option.positional]
            got = " ".join([*(str(given.get(option.name, "")) for option in positional), *rest])
            takes = " ".join(option.label for option in positional) or "no name"
            raise BadInput(f"{self.prog} takes {takes}, got {got}. See {self.prog} --help.")
        return given

    def parse_known(self, words: Sequence[str]) -> dict[str, Any]:
        """Values that were given for the options of this parser; other words are ignored."""
        return self._parse(words, add_help=False)[0]

    def _check_flags(self, words: Sequence[str]) -> None:
        types = {flag: option.type_ for option in self.options for flag in option.flags}
        types |= dict.fromkeys(("-h", "--help"), bool)
        for word in _before_dashes(words):
            flag, equals, _ = word.partition("=")
            if flag in types:
                if equals and types[flag] is bool:
                    raise BadInput(f"{flag} takes no value. See {self.prog} --help.")
            elif flag in self.hints:
                raise BadInput(self.hints[flag])
            elif re.match("--?[A-Za-z]", flag):
                raise unknown("option", flag, types, self.prog)

    def _parse(
        self, words: Sequence[str], add_help: bool = True
    ) -> tuple[dict[str, Any], list[str]]:
        """Values that were given, and the words that are left over."""
        message = io.StringIO()
        try:
            with contextlib.redirect_stderr(message):
                parsed, rest = tyro.cli(
                    self._type(),
                    prog=self.prog,
                    description=self.text,
                    args=words,
                    return_unknown_args=True,
                    add_help=add_help,
                )
        except SystemExit as end:
            if not end.code:
                raise HelpPrinted from None
            raise BadInput(f"{_cause(message.getvalue())} See {self.prog} --help.") from None
        except BadInput as error:
            raise BadInput(f"{error} See {self.prog} --help.") from error
        given = {}
        for title, options in self.groups.items():
            group = getattr(parsed, _attribute(title)) if title else parsed
            for option in options:
                value = getattr(group, option.name)
                if value != option.for_tyro[1]:
                    given[option.name] = option.value(value)
        return given, rest

    def _type(self) -> type[Any]:
        """Dataclass for tyro, with one nested dataclass per titled group."""
        (_, options), *titled = self.groups.items()
        groups = {_attribute(title): _dataclass(group) for title, group in titled}
        return _dataclass(options, groups)


def _before_dashes(words: Sequence[str]) -> list[str]:
    """Words that may be flags: those before ``--``."""
    return list(itertools.takewhile(lambda word: word != "--", words))


def _attribute(title: str) -> str:
    """A title as an attribute; tyro shows it with spaces for underscores."""
    return re.sub(r"\W", "_", title)


def _dataclass(options: Iterable[Option], groups: Mapping[str, type] | None = None) -> type:
    items = [(option.name, *option.for_tyro) for option in options]
    made = make_dataclass(
        "Options",
        [(name, type_, field(default=absent)) for name, type_, absent in items]
        + [(name, group, field(default_factory=group)) for name, group in (groups or {}).items()],
    )
    made.__doc__ = None  # or the help shows the signature
    return made


def _cause(box: str) -> str:
    """Cause of an error that tyro prints in a box: here always an option without its value.

    Example:
        >>> _cause("| Missing value for argument '--lr'. Expected 1 values. |")
        '--lr needs a value.'
    """
    match = re.search("argument +'(--[^']+)'", box)
    return f"{match[1]} needs a value." if match else " ".join(box.split())
