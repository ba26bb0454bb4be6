"""Check values against type annotations and names against a list, with clear errors."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_TOLD = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LISTS = {Sequence: (list, tuple), tuple: (tuple,)}


def check_option(name: str, value: object, options: Iterable[str]) -> None:
    """Raise ``ValueError`` with the nearest valid spelling unless ``value`` is one of ``options``.

    Example:
        >>> check_option("match", "wrost", ("worst", "variance"))
        Traceback (most recent call last):
        ValueError: Unknown match 'wrost'. Did you mean 'worst'? Valid: 'worst', 'variance'.
    """
    valid = tuple(options)
    if value in valid:
        return
    folded = {option.lower(): option for option in valid}
    near = difflib.get_close_matches(str(value).lower(), folded, n=1)
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    listed = f"Valid: {', '.join(map(repr, valid))}." if valid else "There are none."
    raise ValueError(f"Unknown {name} {value!r}.{hint} {listed}")


def check_keywords(name: str, given: Iterable[str], function: Callable[..., Any]) -> None:
    """Raise ``ValueError`` unless every name in ``given`` is a keyword-only argument.

    Example:
        >>> def blur(image, *, radius=1): ...
        >>> check_keywords("option of blur", {"raduis": 2}, blur)
        Traceback (most recent call last):
        ValueError: Unknown option of blur 'raduis'. Did you mean 'radius'? Valid: 'radius'.
    """
    arguments = inspect.signature(function).parameters.values()
    valid = [argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY]
    for keyword in given:
        check_option(name, keyword, valid)


def check_options(name: str, options: Mapping[str, Any], make: Callable[..., Any]) -> None:
    """Raise ``ValueError`` unless ``make`` has these keyword arguments and takes their values.

    Example:
        >>> def blur(image, *, radius: int = 1): ...
        >>> check_options("blur", {"radius": "big"}, blur)
        Traceback (most recent call last):
        ValueError: Option radius of blur: 'big' is not a whole number.
    """
    check_keywords(f"option of {name}", options, make)
    try:
        kinds = get_type_hints(make.func if isinstance(make, partial) else make)
    except NameError:  # of an annotation whose names are for type checkers alone
        kinds = {}
    check_values(name, options, kinds)


def check_values(name: str, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` where a value is not of its kind.

    Args:
        name: of what the values are options of.
        values: by name.
        kinds: the annotation of each; a value without one may be anything.

    Example:
        >>> check_values("rdm", {"match": "wrost"}, {"match": Literal["worst", "variance"]})
        Traceback (most recent call last):
        ValueError: Unknown match of rdm 'wrost'. Did you mean 'worst'? Valid: 'worst', 'variance'.
    """
    for option, value in values.items():
        kind = kinds.get(option, Any)
        if get_origin(kind) is Literal:
            check_option(f"{option} of {name}", value, get_args(kind))
        elif told := misfit(value, kind):
            raise ValueError(f"Option {option} of {name}: {value!r} is not {told}.")


def misfit(value: Any, kind: Any) -> str | None:
    """What a value should be, where it is something else.

    A whole number is a number, and ``True`` is neither. Of kinds that nobody types, such as
    classes, nothing is said.

    Example:
        >>> misfit("big", int), misfit(3, float), misfit(True, int), misfit(None, float | None)
        ('a whole number', None, 'a whole number', None)
    """
    return None if not _is_known(kind) or _is(value, kind) else _told(kind)


def _is_known(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(_is_known(part) for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) in _LISTS:
        return _is_known(get_args(kind)[0])
    return kind in _TOLD or get_origin(kind) is Mapping


def _is(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_is(value, part) for part in get_args(kind))
    if origin in _LISTS:
        return isinstance(value, _LISTS[origin]) and all(
            _is(entry, get_args(kind)[0]) for entry in value
        )
    if origin is Mapping:
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _told(kind: Any) -> str:
    origin = get_origin(kind)
    if origin in _LISTS:
        return f"a list of {_told(get_args(kind)[0]).removeprefix('a ')}s"
    if origin is Mapping:
        return "a table"
    if origin in (Union, UnionType):
        told = _told(next(part for part in get_args(kind) if part is not NoneType))
        return f"{told.replace(' or ', ', ')} or null"
    return _TOLD[kind]
