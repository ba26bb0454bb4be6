"""Conformance checks for objectives, data sets, networks and launchers, also for your own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import Parameter, isfunction
from typing import Any


class ConformanceError(AssertionError):
    """A part does not have a property that every part of its kind must have.

    Args:
        name: name of the part.
        message: the property that fails, following the name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")


def name_of(part: object) -> str:
    """Name of a function or class, or of the class of an object."""
    function: Any = part.func if isinstance(part, partial) else part
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.lstrip("_")


def require(holds: bool, part: object, message: str) -> None:
    """Raise :class:`ConformanceError` unless a property holds."""
    if not holds:
        raise ConformanceError(name_of(part), message)


def require_documented(option: Parameter, part: object, documentation: str) -> None:
    """Raise unless an option has an annotation, a default and a line in the documentation."""
    annotated = option.annotation is not option.empty
    require(annotated, part, f"option {option.name!r} has no type annotation.")
    given = isinstance(part, partial) and option.name in part.keywords
    default = option.default is not option.empty or given
    require(default, part, f"option {option.name!r} has no default.")
    documented = option.name in documentation
    require(documented, part, f"option {option.name!r} is not in the docstring.")


def checks_in(module: Mapping[str, Any]) -> tuple[Any, ...]:
    """The public functions that a module, given by its variables, defines: its checks."""
    return tuple(
        value
        for name, value in module.items()
        if isfunction(value) and value.__module__ == module["__name__"] and name[0] != "_"
    )
