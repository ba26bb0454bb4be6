"""Whether the options of a network have values that it can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from riskmatch.spelling import check_keywords, check_option

_TOLD = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def check_options(name: str, options: Mapping[str, Any], make: Callable[..., Any]) -> None:
    """Raise ``ValueError`` unless ``make`` has these keyword arguments and takes their values.

    Example:
        >>> def blur(image, *, radius: int = 1): ...
        >>> check_options("blur", {"radius": "big"}, blur)
        Traceback (most recent call last):
        ValueError: Option radius of blur: 'big' is not a whole number.
    """
    check_keywords(f"option of {name}", options, make)
    kinds = get_type_hints(make.func if isinstance(make, partial) else make)
    for option, value in options.items():
        kind = kinds[option]
        if get_origin(kind) is Literal:
            check_option(f"{option} of {name}", value, get_args(kind))
        elif not _is(value, kind):
            raise ValueError(f"Option {option} of {name}: {value!r} is not {_told(kind)}.")


def _is(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_is(value, part) for part in get_args(kind))
    if get_origin(kind) is Sequence:
        (part,) = get_args(kind)
        return isinstance(value, list | tuple) and all(_is(entry, part) for entry in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _told(kind: Any) -> str:
    """What a value should be, as one types it."""
    if get_origin(kind) is Sequence:
        return f"a list of {_told(get_args(kind)[0]).removeprefix('a ')}s"
    if get_origin(kind) in (Union, UnionType):
        told = _told(next(part for part in get_args(kind) if part is not NoneType))
        return f"{told.replace(' or ', ', ')} or null"
    return _TOLD[kind]
