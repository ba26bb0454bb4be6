"""Check values against type annotations and names against a list, with clear errors."""

from __future__ import annotations

import difflib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache, partial
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MAX_LISTED = 50
"""Most names that a message lists."""
_NOUNS = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
_LONG = 120
"""Most characters of a value in a message."""
_LONG_LIST = 1000
"""Most characters of the names in a message."""
MAX_CHARACTERS = 2000
"""Most characters of an error of a command, which is one line."""
_LISTS = {Sequence: (list, tuple), tuple: (tuple,)}
_origin: Callable[[Any], Any] = cache(get_origin)  # sweeps check many values


def check_option(name: str, value: object, options: Iterable[str], more: str = "") -> None:
    """Raise ``ValueError`` with the nearest valid spelling unless ``value`` is one of ``options``.

    ``more`` follows in the message.

    Example:
        >>> check_option("match", "wrost", ("worst", "variance"))
        Traceback (most recent call last):
        ValueError: Unknown match 'wrost'. Did you mean 'worst'? Valid: 'worst', 'variance'.
    """
    valid = tuple(options)
    if value not in valid:
        raise ValueError(f"Unknown {name} {shown(value)}.{valid_spellings(value, valid)}{more}")


def valid_spellings(value: object, valid: Sequence[str]) -> str:
    """Hints on a name that is none of the valid ones, to end a message with."""
    folded = {option.lower(): option for option in valid}
    text = str(value).lower()
    near = difflib.get_close_matches(text, folded)
    near.sort(key=lambda option: sorted(option) != sorted(text))  # swapped letters first
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    return f"{hint} Valid: {listed(valid)}." if valid else " There are none."


@contextmanager
def from_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra of riskmatch that has a package, if importing it within fails.

    Example:
        >>> with from_extra("ray", "The launcher ray"):
        ...     import no_such_package
        Traceback (most recent call last):
        ImportError: The launcher ray needs pip install 'riskmatch[ray]' (No module named ...).
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs pip install 'riskmatch[{extra}]' ({error}).") from error


def listed(names: Sequence[object]) -> str:
    """Names in quotes for a message; of many the first, and how many more there are.

    Example:
        >>> listed(["late", "site"]), listed(range(1000))[-15:]
        ("'late', 'site'", '49 and 950 more')
    """
    quoted = [shown(name) for name in names[:MAX_LISTED]]
    while sum(map(len, quoted)) > _LONG_LIST:
        quoted.pop()
    left = len(names) - len(quoted)
    return ", ".join(quoted) + (f" and {left:,} more" if left else "")


def shortened(message: str) -> str:
    """A message of at most 2,000 characters: its beginning, and its end, which has the cure.

    Example:
        >>> len(shortened("1" * 5000)), shortened("1" * 5000 + " Choose another.")[-10:]
        (2000, 'e another.')
    """
    if len(message) <= MAX_CHARACTERS:
        return message
    return f"{message[: MAX_CHARACTERS - 503]} … {message[-500:]}"


def check_options(name: str, options: Mapping[str, Any], make: Callable[..., Any]) -> None:
    """Raise ``ValueError`` unless ``make`` has these keyword-only arguments and takes these values.

    Example:
        >>> def blur(image, *, radius: int = 1): ...
        >>> check_options("blur", {"raduis": 2}, blur)
        Traceback (most recent call last):
        ValueError: Unknown option of blur 'raduis'. Did you mean 'radius'? Valid: 'radius'.
        >>> check_options("blur", {"radius": "big"}, blur)
        Traceback (most recent call last):
        ValueError: radius of blur must be an integer, got 'big'.
    """
    arguments = inspect.signature(make).parameters.values()
    valid = [argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY]
    for keyword in options:
        check_option(f"option of {name}", keyword, valid)
    check_values(name, options, type_hints(make))


def texts(name: str, value: Any) -> tuple[str, ...]:
    """One name or several as a tuple of strings; numbers, which are names of domains, as text.

    Example:
        >>> texts("test_domains", "photo"), texts("test_domains", [0.1, 2])
        (('photo',), ('0.1', '2'))
    """
    try:
        listed: tuple[Any, ...] = (value,) if isinstance(value, str | Real) else tuple(value)
    except TypeError:  # nothing to iterate over
        listed = (value,)
    for entry in listed:
        if not isinstance(entry, str | Real):
            raise TypeError(f"{name} must be a name or a list of names, got {entry!r}.")
    return tuple(map(str, listed))


def plain(value: Any) -> Any:
    """A NumPy number as the Python number that it prints as, also in lists and tables.

    Any other value is returned as it is.

    Example:
        >>> import numpy as np
        >>> plain({"lr": np.float32(0.1), "widths": [np.int64(4)]})
        {'lr': 0.1, 'widths': [4]}
    """
    if type(value) is dict:
        return {key: plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return value
    number = value.item()
    return float(str(value)) if isinstance(number, float) else number  # 0.1 is not 0.10000000149


def check_values(name: str, values: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` where a value does not match its type annotation.

    Args:
        name: what the values are options of; empty where they need no more words.
        values: values by name.
        types: annotations by name; a value without one is not checked.

    Example:
        >>> check_values("rdm", {"match": "wrost"}, {"match": Literal["worst", "variance"]})
        Traceback (most recent call last):
        ValueError: Unknown match of rdm 'wrost'. Did you mean 'worst'? Valid: 'worst', 'variance'.
    """
    of = f" of {name}" if name else ""
    for option, value in values.items():
        type_ = types.get(option, Any)
        if _origin(type_) is Literal:
            check_option(f"{option}{of}", value, get_args(type_))
        elif expected := mismatch(value, type_):
            raise ValueError(f"{option}{of} must be {expected}, got {shown(value)}.")


def check_json(value: Any, schema: Any, place: str = "") -> None:
    """Raise ``ValueError`` that names the place where a JSON value does not have its schema.

    A schema is an annotation; or a list of one schema, that of every entry; or a dictionary of
    the schemas of keys that must be there, in which the key ``str`` stands for all keys.

    Example:
        >>> check_json({"sites": {"A": {"rows": "9"}}}, {"sites": {str: {"rows": int}}})
        Traceback (most recent call last):
        ValueError: sites.A.rows must be an integer, got '9'.
    """
    if isinstance(schema, dict):
        if not isinstance(value, Mapping):
            raise ValueError(f"{place or 'the content'} must be a table, got {shown(value)}.")
        for key, part in schema.items():
            for name in value if key is str else [key]:
                inside = f"{place}.{name}" if place else str(name)
                if name not in value:
                    raise ValueError(f"{inside} is missing.")
                check_json(value[name], part, inside)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise ValueError(f"{place} must be a list, got {shown(value)}.")
        for number, entry in enumerate(value):
            check_json(entry, schema[0], f"{place}[{number}]")
    elif expected := mismatch(value, schema):
        raise ValueError(f"{place} must be {expected}, got {shown(value)}.")


def shown(value: object) -> str:
    """A value as Python prints it, cut off where it is long: files hold any.

    Example:
        >>> shown("abc"), shown([7] * 1000)[-5:]
        ("'abc'", ', 7 …')
    """
    try:
        text = repr(value)
    except ValueError:  # of more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= _LONG else f"{text[: _LONG - 2].rstrip(', ')} …"


def format_value(value: Any) -> str:
    """A value as it is typed on the command line.

    Example:
        >>> format_value(1e-05), format_value(5.0), format_value({"samples": 500})
        ('1e-5', '5', 'samples=500')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-")
    if isinstance(value, Mapping):
        return " ".join(f"{key}={json.dumps(entry)}" for key, entry in value.items())
    if isinstance(value, tuple | list):
        return " ".join(map(format_value, value))
    return str(value)


@cache
def type_hints(make: Callable[..., Any]) -> Mapping[str, Any]:
    """Annotations of a function's parameters, of a class's constructor, or of a partial's function.

    Empty where an annotation cannot be evaluated.

    Example:
        >>> def blur(image, *, radius: int = 1): ...
        >>> type_hints(partial(blur, None))
        {'radius': <class 'int'>}
    """
    function: Any = make.func if isinstance(make, partial) else make
    if isinstance(function, type) and not is_dataclass(function):
        function = vars(function).get("__init__", function)
    try:
        return get_type_hints(function)
    except NameError:  # a name imported for type checkers alone
        return {}


def mismatch(value: Any, type_: Any) -> str | None:
    """Expected type in words if ``value`` does not match the annotation ``type_``, else None.

    An integer is a number; a boolean is neither; infinity, NaN and integers of more than 64 bits
    match nothing. Annotations other than plain types, lists, mappings and unions of these are not
    checked.

    Example:
        >>> mismatch("big", int), mismatch(3, float), mismatch(True, int)
        ('an integer', None, 'an integer')
        >>> mismatch("big", float | None)
        'a number or None'
    """
    if type(value) is type_ and (type_ not in (int, float) or _is_finite(value)):
        return None  # the usual case: sweeps check many values
    if not _is_finite(value):
        return "below 2^63" if isinstance(value, int) else "finite"
    return None if not _is_checked(type_) or _matches(value, type_) else _noun(type_)


def _is_finite(value: Any) -> bool:
    """Whether every number in a value, or in the lists and tables in it, is finite.

    Integers of more than 64 bits are not: neither tensors nor data frames can hold them.
    """
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


@cache
def _is_checked(type_: Any) -> bool:
    if get_origin(type_) in (Union, UnionType):
        return all(_is_checked(part) for part in get_args(type_) if part is not NoneType)
    if get_origin(type_) in _LISTS:
        return _is_checked(get_args(type_)[0])
    return type_ in _NOUNS or get_origin(type_) is Mapping


def _matches(value: Any, type_: Any) -> bool:
    if type(value) is type_:
        return True
    origin = _origin(type_)
    if origin in (Union, UnionType):
        return any(_matches(value, part) for part in get_args(type_))
    if origin in _LISTS:
        return isinstance(value, _LISTS[origin]) and all(
            _matches(entry, get_args(type_)[0]) for entry in value
        )
    if origin is Mapping:
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, int | float if type_ is float else type_)


def _noun(type_: Any) -> str:
    origin = get_origin(type_)
    if origin in _LISTS:
        return f"a list of {_noun(get_args(type_)[0]).split(' ', 1)[1]}s"
    if origin is Mapping:
        return "a table"
    if origin in (Union, UnionType):
        parts = " or ".join(_noun(part) for part in get_args(type_) if part is not NoneType)
        return f"{parts.replace(' or ', ', ')} or None" if NoneType in get_args(type_) else parts
    return _NOUNS[type_]
