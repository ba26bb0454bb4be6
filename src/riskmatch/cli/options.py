"""Options from dataclasses: a field is an option, the docstring under it is the help."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, UseAppendAction
from tyro.constructors import PrimitiveConstructorSpec

from riskmatch.cli.errors import BadInput
from riskmatch.cli.values import reading, shown
from riskmatch.space import Choice, Tuned


@dataclass(frozen=True)
class Option:
    """One option of a command, or a thing that it is about."""

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
    thing: bool = False
    """Whether it is told by its place, not by its name."""
    required: bool = False
    """Whether a command makes no sense without it."""
    pair: bool = False
    """Whether a switch can be turned off, by ``--no-…``, as well as on."""
    aliases: tuple[str, ...] = ()
    """Other spellings."""

    @property
    def many(self) -> bool:
        """Whether it may be given several times, each time with one of its values."""
        return get_origin(self.kind) in (tuple, Mapping)

    @property
    def word(self) -> str:
        """How it is told: its flag, or what stands for a thing."""
        name = (self.name.removesuffix("s") if self.many else self.name).replace("_", "-")
        return name.upper() if self.thing else f"--{name}"

    @property
    def flags(self) -> list[str]:
        """Every spelling; none of a thing."""
        if self.thing:
            return []
        return [self.word, *self.aliases, *([f"--no-{self.word[2:]}"] if self.pair else [])]

    @property
    def typed(self) -> tuple[Any, Any]:
        """The option as tyro has it: an annotation, and the value that means it was not given."""
        config = tyro.conf.arg(
            name=self.word.lstrip("-"),
            metavar=self.word if self.thing and self.required else None,
            help=self.help.rstrip("."),
            help_behavior_hint=self._hint,
            aliases=self.aliases or None,
            prefix_name=False,
        )
        if self.kind is bool:
            if self.pair:
                return Annotated[bool | None, DisallowNone, config], None
            return Annotated[bool, FlagCreatePairsOff, config], False
        name, read = reading(self.kind)

        def value(texts: list[str]) -> Any:
            try:
                return read(texts[0])
            except ValueError as error:
                raise BadInput(f"{self.word}: {error}") from error

        spec = PrimitiveConstructorSpec(
            nargs=1,
            metavar=self.word if self.thing else name,
            instance_from_str=value,
            is_instance=lambda _: True,
            str_from_instance=lambda value: [str(value)],
        )
        if self.thing and not self.many:
            return Annotated[Any, Positional, spec, config], None
        if self.thing:
            return Annotated[tuple[Annotated[Any, spec], ...], Positional, config], ()
        return Annotated[tuple[Annotated[Any, spec], ...], UseAppendAction, config], ()

    def value(self, told: Any) -> Any:
        """The value of what tyro returns."""
        if self.kind is bool or self.thing:
            return told
        if get_origin(self.kind) is Mapping:
            return dict(told)
        return told if self.many else told[-1]

    @property
    def _hint(self) -> str:
        notes = []
        if self.many and not self.default:
            notes.append("may be repeated")
        elif self.default is not None and self.default is not False:
            notes.append(f"default {shown(self.default)}")
        if self.searched:
            notes.append(f"searched in {self.searched}")
        return f"({'; '.join(notes)})" if notes else ""


def options_of(cls: type) -> list[Option]:
    """The fields of a dataclass as options; one marked ``tyro.conf.Positional`` is a thing.

    Example:
        >>> [option.word for option in options_of(Option)][:2]
        ['--name', '--kind']
    """
    kinds, help = get_type_hints(cls, include_extras=True), docs(cls)
    found = []
    for field in fields(cls):
        marked = get_origin(kinds[field.name]) is Annotated
        kind, *marks = get_args(kinds[field.name]) if marked else (kinds[field.name],)
        required = field.default is MISSING and field.default_factory is MISSING
        found.append(
            Option(
                field.name,
                kind,
                help.get(field.name, ""),
                default=None if field.default is MISSING else field.default,
                thing=Positional in marks,
                required=required,
            )
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
