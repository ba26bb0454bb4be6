"""From words to what was given, with tyro; mistakes in one line."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, make_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import tyro

from riskmatch.cli.errors import BadInput, unknown
from riskmatch.cli.options import Option, options_of

Command = TypeVar("Command")


def parse(
    command: type[Command],
    name: str,
    words: Sequence[str],
    aliases: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Command:
    """The words after ``riskmatch NAME`` as a value of the dataclass ``command``.

    Its docstring is the description in the help, its fields are the options. A field without a
    default must be given. ``aliases`` are other spellings of an option, by its field.
    """
    options = [replace(o, aliases=aliases.get(o.name, ())) for o in options_of(command)]
    parser = Parser(f"riskmatch {name}", inspect.getdoc(command) or "", options)
    given = parser.parse(words)
    for option in parser.options:
        if option.required and option.name not in given:
            raise BadInput(f"{parser.prog} needs {option.word}: {option.help}")
    return command(**given)


class Parser:
    """Returns what was given and nothing else; says what is wrong in one line."""

    def __init__(self, prog: str, text: str, options: Iterable[Option]) -> None:
        self.prog, self.text = prog, text
        self.groups: dict[str, list[Option]] = {"": list(options)}
        self.elsewhere: Mapping[str, str] = {}
        """What to say of an option that only other methods have, by its flag."""

    @property
    def options(self) -> list[Option]:
        """All of them."""
        return [option for group in self.groups.values() for option in group]

    def add(self, title: str, options: Iterable[Option]) -> None:
        """Add options under a title, a word."""
        known = {option.name for option in self.options}
        self.groups[title] = list(options)
        for option in self.groups[title]:
            if option.name in known:
                raise ValueError(f"Two options of {self.prog} are called {option.word}.")

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """What was given, by name; where help is asked for, it is printed and the process ends."""
        self._check_flags(words)
        given, rest = self._tyro(words)
        if rest:
            things = [option for option in self.options if option.thing]
            told = " ".join([*(str(given.get(thing.name, "")) for thing in things), *rest])
            takes = " ".join(thing.word for thing in things) or "no name"
            raise BadInput(f"{self.prog} takes {takes}, not {told}. See {self.prog} --help.")
        return given

    def glance(self, words: Sequence[str]) -> dict[str, Any]:
        """What was given of these options, among words of which others make sense."""
        return self._tyro(words, add_help=False)[0]

    def _check_flags(self, words: Sequence[str]) -> None:
        kinds = {flag: option.kind for option in self.options for flag in option.flags}
        kinds |= dict.fromkeys(("-h", "--help"), bool)
        for word in itertools.takewhile(lambda word: word != "--", words):
            flag, equals, _ = word.partition("=")
            if flag in kinds:
                if equals and kinds[flag] is bool:
                    raise BadInput(f"{flag} takes no value. See {self.prog} --help.")
            elif flag in self.elsewhere:
                raise BadInput(self.elsewhere[flag])
            elif re.match("--?[A-Za-z]", flag):
                raise unknown("option", flag, kinds, self.prog)

    def _tyro(
        self, words: Sequence[str], add_help: bool = True
    ) -> tuple[dict[str, Any], list[str]]:
        """What was given, and the words that are left over."""
        complaint = io.StringIO()
        try:
            with contextlib.redirect_stderr(complaint):
                told, rest = tyro.cli(
                    self._type(),
                    prog=self.prog,
                    description=self.text,
                    args=words,
                    return_unknown_args=True,
                    add_help=add_help,
                )
        except SystemExit as end:
            if not end.code:
                raise
            raise BadInput(f"{_cause(complaint.getvalue())} See {self.prog} --help.") from None
        except BadInput as error:
            raise BadInput(f"{error} See {self.prog} --help.") from error
        given = {}
        for title, options in self.groups.items():
            for option in options:
                value = getattr(getattr(told, title) if title else told, option.name)
                if value != option.typed[1]:
                    given[option.name] = option.value(value)
        return given, rest

    def _type(self) -> type[Any]:
        """What tyro reads: a dataclass of the options, those under a title in one of their own."""
        groups = {title: _dataclass(options) for title, options in self.groups.items() if title}
        return _dataclass(self.groups[""], groups)


def _dataclass(options: Iterable[Option], groups: Mapping[str, type] | None = None) -> type:
    items = [(option.name, *option.typed) for option in options]
    made = make_dataclass(
        "Options",
        [(name, kind, field(default=absent)) for name, kind, absent in items]
        + [(title, group, field(default_factory=group)) for title, group in (groups or {}).items()],
    )
    made.__doc__ = None  # or the help shows the one that dataclasses make up
    return made


def _cause(box: str) -> str:
    """What is wrong, from the box that tyro draws: only options without their value come so far.

    Example:
        >>> _cause("| Missing value for argument '--lr'. Expected 1 values. |")
        '--lr needs a value.'
    """
    found = re.search("argument +'(--[^']+)'", box)
    return f"{found[1]} needs a value." if found else " ".join(box.split())
