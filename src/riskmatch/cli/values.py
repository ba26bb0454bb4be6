"""Values as one types them: from text by their type, and back."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from riskmatch.validation import check_option


def reading(kind: Any) -> tuple[str, Callable[[str], Any]]:
    """What stands for a value of this type in the help, and what reads one or raises ValueError.

    Example:
        >>> name, read = reading(float | None)
        >>> name, read("none"), read("2")
        ('X', None, 2.0)
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        choices = {str(part): part for part in parts}
        return "{" + ",".join(choices) + "}", lambda text: _choice(text, choices)
    if origin in (Union, types.UnionType):
        name, read = reading(next(part for part in parts if part is not type(None)))
        return name, lambda text: None if text.lower() == "none" else read(text)
    if origin is tuple:
        return reading(parts[0])
    if origin is Mapping:
        return "KEY=VALUE", _pair
    if kind in (int, float):
        return "N" if kind is int else "X", lambda text: _number(text, kind)
    return ("PATH", Path) if kind is Path else ("NAME", str)


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
