"""Options from dataclasses: a field is an option, the docstring under it is the help."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from riskmatch.cli.errors import BadInput, unknown
from riskmatch.space import Choice, Tuned
from riskmatch.spelling import check_option


@dataclass(frozen=True)
class Option:
    """One option of a command."""

    name: str
    """As in Python; ``lr_after`` is ``--lr-after`` on the command line."""
    kind: Any
    """Its type: a number, text, a switch, a ``Literal``, a tuple or a mapping."""
    help: str
    """What it sets."""
    default: Any = None
    """What holds where it is not given; None where nothing does."""
    searched: str = ""
    """Where a sweep searches for it."""

    @property
    def many(self) -> bool:
        """Whether it may be given several times, each time with one of its values."""
        return get_origin(self.kind) in (tuple, Mapping)

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        name = self.name.removesuffix("s") if self.many else self.name
        return "--" + name.replace("_", "-")

    @property
    def flags(self) -> list[str]:
        """Every spelling."""
        return ["-h", self.flag] if self.name == "help" else [self.flag]

    def add_to(self, group: argparse._ArgumentGroup) -> None:
        """Teach a parser this option."""
        if self.kind is bool:
            action = "store_true" if self.default is None else argparse.BooleanOptionalAction
            group.add_argument(*self.flags, dest=self.name, help=self._help, action=action)
            return
        group.add_argument(
            self.flag,
            dest=self.name,
            help=self._help,
            type=reader(self.kind),
            metavar=metavar(self.kind),
            action="append" if self.many else "store",
        )

    @property
    def _help(self) -> str:
        notes = []
        if self.many and not self.default:
            notes.append("may be repeated")
        elif self.default is not None and self.default is not False:
            notes.append(f"default {shown(self.default)}")
        if self.searched:
            notes.append(f"searched in {self.searched}")
        text = self.help.rstrip(".") + (f" ({'; '.join(notes)})" if notes else "")
        return text.replace("%", "%%")


def options_of(
    cls: type,
    defaults: Mapping[str, Any],
    space: Mapping[str, Tuned],
    data: str | None = None,
) -> list[Option]:
    """The fields of a dataclass as options, with what holds on the data set ``data``."""
    kinds, help = get_type_hints(cls), docs(cls)
    found = []
    for field in fields(cls):
        searched = range_of(space[field.name].on(data)) if field.name in space else ""
        default = defaults.get(field.name)
        found.append(
            Option(field.name, kinds[field.name], help.get(field.name, ""), default, searched)
        )
    return found


def range_of(tuned: Tuned) -> str:
    """Where a sweep searches; empty where there is one value only.

    Example:
        >>> from riskmatch.space import Uniform
        >>> range_of(Tuned(5, Uniform(1, 10))), range_of(Tuned("mmd", Choice(("mmd",))))
        ('U(1, 10)', '')
    """
    single = isinstance(tuned.range, Choice) and len(tuned.range.options) == 1
    return "" if single else str(tuned.range)


def docs(cls: type) -> dict[str, str]:
    """The docstrings under the fields of a class, each on one line.

    Example:
        >>> docs(Option)["help"]
        'What it sets.'
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for here, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[here.target.id] = " ".join(text.value.replace("``", "").split())
    return found


def reader(kind: Any) -> Callable[[str], Any]:
    """What turns the text of an option into its value.

    Example:
        >>> reader(float | None)("none") is None, reader(Literal["worst", "variance"])("worst")
        (True, 'worst')
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda text: _choice(text, {str(part): part for part in parts})
    if origin in (Union, types.UnionType):
        inner = reader(next(part for part in parts if part is not type(None)))
        return lambda text: None if text.lower() == "none" else inner(text)
    if origin is tuple:
        return reader(parts[0])
    if origin is Mapping:
        return _pair
    if kind in (int, float):
        return lambda text: _number(text, kind)
    return Path if kind is Path else str


def metavar(kind: Any) -> str:
    """What stands for the value in the help."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "{" + ",".join(map(str, parts)) + "}"
    if origin in (Union, types.UnionType, tuple):
        return metavar(next(part for part in parts if part is not type(None)))
    if origin is Mapping:
        return "KEY=VALUE"
    return {int: "N", float: "X", Path: "PATH"}.get(kind, "NAME")


def shown(value: Any) -> str:
    """A value as one would type it.

    Example:
        >>> shown(1e-05), shown(5.0), shown(("0.1", "0.2")), shown({"samples": 500})
        ('1e-05', '5', '0.1 0.2', 'samples=500')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={json.dumps(entry)}" for key, entry in value.items())
    if isinstance(value, tuple | list):
        return " ".join(map(shown, value))
    return str(value)


class Parser(argparse.ArgumentParser):
    """Returns what was given and nothing else; says what is wrong in one line."""

    def __init__(self, command: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"riskmatch {command}",
            usage=f"riskmatch {command} {usage}",
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=30
            ),
        )
        self.known: dict[str, Option] = {}
        self.elsewhere: dict[str, str] = {}
        """What to say of an option that another command or method has, by its flag."""

    def add(self, title: str, options: Iterable[Option], description: str | None = None) -> None:
        """Add options under a title."""
        group = self.add_argument_group(title, description)
        for option in options:
            if option.name in self.known:
                raise ValueError(f"Two options of {self.prog} are called {option.flag}.")
            self.known[option.name] = option
            option.add_to(group)

    def parse(self, argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """The things that the command is about, and the options that were given."""
        namespace, rest = self.parse_known_args(list(argv))
        for word in rest:
            if word.startswith("-") and word != "--":
                flag = word.partition("=")[0]
                if flag in self.elsewhere:
                    raise BadInput(self.elsewhere[flag])
                flags = [text for action in self._actions for text in action.option_strings]
                raise unknown("option", flag, flags, self.prog)
        given = vars(namespace)
        for name, value in given.items():
            if self.known[name].many:
                pairs = get_origin(self.known[name].kind) is Mapping
                given[name] = dict(value) if pairs else tuple(value)
        return [word for word in rest if word != "--"], given

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found as bad input."""
        raise BadInput(f"{message.removeprefix('argument ').rstrip('.')}. See {self.prog} --help.")


def _choice(text: str, options: Mapping[str, Any]) -> Any:
    try:
        check_option("choice", text, options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return options[text]


def _number(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        whole = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"'{text}' is not {whole}") from None


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form KEY=VALUE")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
