"""Options of a command, made from the fields of a dataclass; their values read from text."""

from __future__ import annotations

import argparse
import json
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from riskmatch.defaults import field_docs
from riskmatch.validation import check_option, format_value, mismatch, shown

T = TypeVar("T")
Positional = Annotated[T, "positional"]
"""Marks a field of a command as a positional argument."""

ALIASES = {"out": ("-o",), "backbone": ("--model",), "model": ("--backbone",)}
"""Further spellings of options, by field."""


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command."""

    name: str
    """Name of the field; ``lr_after`` is ``--lr-after`` on the command line."""
    type_: Any
    """Type of the value: a number, text, a switch, a ``Literal``, a list of values with commas
    between them, a tuple or a mapping of values given one at a time."""
    help: str
    """Help text."""
    default: Any = None
    """Default that the help shows; None where there is none."""
    range: str = ""
    """Range in which a sweep searches."""
    positional: bool = False
    """Whether it is a positional argument."""
    required: bool = False
    """Whether it must be given."""
    negatable: bool = False
    """Whether a switch also has the form ``--no-…``."""
    aliases: tuple[str, ...] = ()
    """Further spellings."""

    @property
    def repeatable(self) -> bool:
        """Whether it may be given several times, each time with one value."""
        return get_origin(self.type_) in (tuple, Mapping)

    @property
    def label(self) -> str:
        """The flag, or the upper-case name of a positional argument."""
        name = (self.name.removesuffix("s") if self.repeatable else self.name).replace("_", "-")
        return name.upper() if self.positional else f"--{name}"

    @property
    def text(self) -> str:
        """Help text with the default and the range."""
        notes = [f"searched in {self.range}"] if self.range else []
        if self.repeatable and not self.default:
            notes.insert(0, "may be repeated")
        elif self.default not in (None, "", ()) and self.default is not False:
            notes.insert(0, f"default {format_value(self.default)}")
        return f"{self.help.rstrip('.')} ({'; '.join(notes)})" if notes else self.help.rstrip(".")

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to a parser, or to a group of one."""
        names, given = [self.label, *self.aliases], {"dest": self.name}
        settings: dict[str, Any] = {"type": self._value, "metavar": metavar(self.type_)}
        if self.positional:
            names, given = [self.name], {"metavar": self.label}
            settings |= {"nargs": "*" if self.repeatable else "?", "default": None}
        elif self.type_ is bool:
            action = argparse.BooleanOptionalAction if self.negatable else "store_true"
            settings = {"action": action}
        elif self.repeatable:
            settings["action"] = "append"
        parser.add_argument(*names, help=self.text.replace("%", "%%"), **{**settings, **given})

    def _value(self, text: str) -> Any:
        try:
            return read_value(self.type_, self.label, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    def collect(self, parsed: Any) -> Any:
        """Value of the field, from what argparse returns."""
        if get_origin(self.type_) is Mapping:
            return dict(parsed)
        return tuple(parsed) if self.repeatable else parsed


def options_of(cls: type) -> list[Option]:
    """Options for the fields of a dataclass; those marked :data:`Positional` are positional.

    Keyword-only fields, which commands have in common, are last.

    Example:
        >>> [option.label for option in options_of(Option)][:2]
        ['--name', '--type-']
    """
    marked, types_ = get_type_hints(cls, include_extras=True), get_type_hints(cls)
    docs = field_docs(cls)
    return [
        Option(
            field.name,
            types_[field.name],
            docs.get(field.name, ""),
            default=None if field.default is MISSING else field.default,
            positional=get_origin(marked[field.name]) is Annotated,
            required=field.default is MISSING and field.default_factory is MISSING,
            aliases=ALIASES.get(field.name, ()),
        )
        for field in sorted(fields(cls), key=lambda field: bool(field.kw_only))
    ]


def element(type_: Any) -> Any:
    """Type of one value of an option: without None, and of one entry of a tuple.

    Example:
        >>> element(float | None), element(tuple[str, ...])
        (<class 'float'>, <class 'str'>)
    """
    if get_origin(type_) in (Union, types.UnionType, tuple):
        return next(part for part in get_args(type_) if part is not type(None))
    return type_


def metavar(type_: Any) -> str:
    """Placeholder of a value in the help.

    Example:
        >>> metavar(Literal["a", "b"]), metavar(int | None)
        ('{a,b}', 'N')
    """
    type_ = element(type_)
    if get_origin(type_) is Literal:
        return "{" + ",".join(get_args(type_)) + "}"
    names = {int: "N", float: "X", bool: "true|false", Path: "PATH"}
    return "KEY=VALUE" if get_origin(type_) is Mapping else names.get(type_, "NAME")


def read_value(type_: Any, label: str, text: str) -> Any:
    """Value of an option from its text; ``label`` names the option in errors.

    Raises:
        ValueError: the text is no such value.

    Example:
        >>> read_value(float | None, "--clip", "none"), read_value(list[int], "--seeds", "0,1")
        (None, [0, 1])
    """
    part = element(type_)
    if type(None) in get_args(type_) and text.lower() == "none":
        return None
    if get_origin(part) is list:
        return [read_value(get_args(part)[0], label, word) for word in text.split(",")]
    if get_origin(part) is Literal:
        check_option(label, text, get_args(part))
    if not text and (part is Path or label.isupper()):  # as a path, the current folder
        raise ValueError(f"{label} must be a name or path, got ''. The current folder is '.'.")
    if get_origin(part) is Mapping:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{label} must be KEY=VALUE, got '{text}'.")
        try:
            return key, json.loads(value)
        except json.JSONDecodeError:
            return key, value
        except RecursionError:
            raise ValueError(f"{label} {key} has too many nested brackets.") from None
    value = text
    with suppress(ValueError):
        value = part(text) if part in (int, float, Path) else text
    if expected := mismatch(value, part):
        raise ValueError(f"{label} must be {expected}, got {shown(text)}.")
    return value
