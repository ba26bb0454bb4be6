"""Values as one types them: from text by their type, and back."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from riskmatch.spelling import check_option


def reader(kind: Any) -> Callable[[str], Any]:
    """What turns the text of an option into its value, or raises ``ValueError``.

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


def _choice(text: str, options: Mapping[str, Any]) -> Any:
    check_option("choice", text, options)
    return options[text]


def _number(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        whole = "a whole number" if kind is int else "a number"
        raise ValueError(f"'{text}' is not {whole}.") from None


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"'{text}' is not of the form KEY=VALUE.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
