"""Names that nobody has, refused with the nearest one that exists."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any


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
