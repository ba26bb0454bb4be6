"""Options from dataclasses: a field is an option, the docstring under it is the help."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_origin, get_type_hints

from riskmatch.cli.values import metavar, reader, shown
from riskmatch.space import Choice, Tuned


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
    """The docstrings under the fields of a class, each on one line; none where there is no source.

    Example:
        >>> docs(Option)["help"]
        'What it sets.'
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except OSError:
            continue
        assert isinstance(body, ast.ClassDef)
        for here, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[here.target.id] = " ".join(text.value.replace("``", "").split())
    return found
