"""Options of a command, made from the fields of a dataclass; their values read from text."""

from __future__ import annotations

import inspect
import json
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, UseAppendAction
from tyro.constructors import PrimitiveConstructorSpec

from riskmatch.cli.errors import BadInput
from riskmatch.defaults import field_docs
from riskmatch.validation import check_option, format_value, shown, type_hints


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command."""

    name: str
    """Name of the field; ``lr_after`` is ``--lr-after`` on the command line."""
    type_: Any
    """Type of the value: a number, text, a switch, a ``Literal``, a tuple or a mapping."""
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
    def flags(self) -> list[str]:
        """Every spelling of the flag; empty for a positional argument."""
        if self.positional:
            return []
        return [self.label, *self.aliases, *([f"--no-{self.label[2:]}"] if self.negatable else [])]

    @property
    def for_tyro(self) -> tuple[Any, Any]:
        """Annotation that tyro parses, and the value that means "not given"."""
        config = tyro.conf.arg(
            name=self.label.lstrip("-"),
            metavar=self.label if self.positional and self.required else None,
            help=self.help.rstrip("."),
            help_behavior_hint=self._hint,
            aliases=self.aliases or None,
            prefix_name=False,
        )
        if self.type_ is bool:
            if self.negatable:
                return Annotated[bool | None, DisallowNone, config], None
            return Annotated[bool, FlagCreatePairsOff, config], False
        metavar, read = reader(self.type_, self.label)

        def value(texts: list[str]) -> Any:
            try:
                return read(texts[0])
            except ValueError as error:
                raise BadInput(str(error)) from error

        spec = PrimitiveConstructorSpec(
            nargs=1,
            metavar=self.label if self.positional else metavar,
            instance_from_str=value,
            is_instance=lambda _: True,
            str_from_instance=lambda value: [str(value)],
        )
        if self.positional and not self.repeatable:
            return Annotated[Any, Positional, spec, config], None
        mark = Positional if self.positional else UseAppendAction
        return Annotated[tuple[Annotated[Any, spec], ...], mark, config], ()

    def value(self, parsed: Any) -> Any:
        """Value of the field, from what tyro returns."""
        if self.type_ is bool or self.positional:
            return parsed
        if get_origin(self.type_) is Mapping:
            return dict(parsed)
        return parsed if self.repeatable else parsed[-1]

    @property
    def _hint(self) -> str:
        notes = []
        if self.repeatable and not self.default:
            notes.append("may be repeated")
        elif self.default is not None and self.default is not False:
            notes.append(f"default {format_value(self.default)}")
        if self.range:
            notes.append(f"searched in {self.range}")
        return f"({'; '.join(notes)})" if notes else ""


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


def options_of(cls: type) -> list[Option]:
    """Options for the fields of a dataclass; ``tyro.conf.Positional`` marks positional arguments.

    Example:
        >>> [option.label for option in options_of(Option)][:2]
        ['--name', '--type-']
    """
    annotations, docs = get_type_hints(cls, include_extras=True), field_docs(cls)
    options = []
    for field in fields(cls):
        marked = get_origin(annotations[field.name]) is Annotated
        type_, *marks = get_args(annotations[field.name]) if marked else (annotations[field.name],)
        options.append(
            Option(
                field.name,
                type_,
                docs.get(field.name, ""),
                default=None if field.default is MISSING else field.default,
                positional=Positional in marks,
                required=field.default is MISSING and field.default_factory is MISSING,
            )
        )
    return options


def describe_keywords(function: Callable[..., Any]) -> list[str]:
    """One line per keyword-only parameter: name, type, default and text from the docstring.

    Example:
        >>> def load(*, size: int = 224, augment: bool = True):
        ...     '''Images.
        ...
        ...     Args:
        ...         size: side of the images.
        ...     '''
        >>> describe_keywords(load)
        ['size=N  side of the images (default 224)', 'augment=true|false  (default true)']
    """
    types_, docs = type_hints(function), _argument_docs(function)
    lines = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        metavar, _ = reader(types_.get(parameter.name, str))
        default = parameter.default
        none = default in (None, (), parameter.empty)
        shown = "" if none else f"(default {format_value(default)})"
        doc = docs.get(parameter.name, "").rstrip(".")
        lines.append("  ".join([f"{parameter.name}={metavar}", f"{doc} {shown}".strip()]).rstrip())
    return lines


def reader(type_: Any, label: str = "value") -> tuple[str, Callable[[str], Any]]:
    """Placeholder of a value in the help, and a function that reads one or raises ``ValueError``.

    ``label`` names the option in errors.

    Example:
        >>> metavar, read = reader(float | None)
        >>> metavar, read("none"), read("2")
        ('X', None, 2.0)
    """
    origin, parts = get_origin(type_), get_args(type_)
    if origin is Literal:
        choices = {str(part): part for part in parts}
        return "{" + ",".join(choices) + "}", partial(_choice, label, choices)
    if origin in (Union, types.UnionType):
        metavar, read = reader(next(part for part in parts if part is not type(None)), label)
        return metavar, lambda text: None if text.lower() == "none" else read(text)
    if origin is tuple:
        return reader(parts[0], label)
    if origin is Mapping:
        return "KEY=VALUE", partial(_pair, label)
    if type_ in (int, float):
        return "N" if type_ is int else "X", partial(_number, label, type_)
    if type_ is bool:
        return "true|false", str
    return ("PATH", partial(_path, label)) if type_ is Path else ("NAME", str)


def plain(text: str) -> str:
    """Text without the markup of reStructuredText.

    Example:
        >>> plain("see :func:`~riskmatch.data.load` and ``size``")
        'see load and size'
    """
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"\1", text)
    return re.sub(r":\w+:`([^`]*)`", r"\1", text).replace("``", "")


def _choice(label: str, choices: Mapping[str, Any], text: str) -> Any:
    check_option(label, text, choices)
    return choices[text]


def _number(label: str, type_: Callable[[str], Any], text: str) -> Any:
    try:
        number = type_(text)
    except ValueError:
        expected = "an integer" if type_ is int else "a number"
        raise ValueError(f"{label} must be {expected}, got {shown(text)}.") from None
    if type_ is float and not math.isfinite(number):
        raise ValueError(f"{label} must be finite, got '{text}'.")
    return number


def _path(label: str, text: str) -> Path:
    if not text:  # which Path takes for the current folder
        raise ValueError(f"{label} must be a path, got ''. The current folder is '.'.")
    return Path(text)


def _pair(label: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{label} must be KEY=VALUE, got '{text}'.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
    except RecursionError:
        raise ValueError(f"{label} {key} has too many nested brackets.") from None


def _argument_docs(function: Any) -> dict[str, str]:
    """Texts of the section ``Args:`` of a docstring, by parameter."""
    function = getattr(function, "func", function)
    doc = inspect.getdoc(function) or ""
    if isinstance(function, type) and "Args:" not in doc:
        doc = inspect.getdoc(function.__init__) or ""  # type: ignore[misc]
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", doc, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE)
    return {name: plain(" ".join(text.split())) for name, text in entries}
