"""Find a part (method, data set, network, divergence, …) by its name.

Three kinds of names are accepted wherever a part is named:

1. a built-in name, such as ``rdm``;
2. a name that an installed package announces with an entry point, in the group of :data:`GROUPS`;
3. ``package.module:Name``, imported as ``from package.module import Name`` would be.

The first that fits wins, so a built-in name always means the built-in part.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, cast, get_args

from riskmatch.validation import check_option

Kind = Literal["method", "data", "model", "divergence", "selection", "launcher", "logger"]
KINDS: tuple[Kind, ...] = get_args(Kind)

GROUPS: dict[Kind, str] = {
    "method": "riskmatch.methods",
    "data": "riskmatch.data",
    "model": "riskmatch.models",
    "divergence": "riskmatch.divergences",
    "selection": "riskmatch.selections",
    "launcher": "riskmatch.launchers",
    "logger": "riskmatch.loggers",
}
"""The entry-point group of each kind."""

NOUNS: dict[Kind, str] = {
    "method": "method",
    "data": "data set",
    "model": "network",
    "divergence": "divergence",
    "selection": "selection rule",
    "launcher": "launcher",
    "logger": "logger",
}
"""What each kind is called in messages."""

_BUILT_IN: dict[Kind, str] = {
    "method": "riskmatch.objectives:methods",
    "data": "riskmatch.data.catalogue:DATASETS",
    "model": "riskmatch.models:NETWORKS",
    "divergence": "riskmatch.divergence:DIVERGENCES",
    "selection": "riskmatch.selection:RULES",
    "launcher": "riskmatch.sweep.launchers:LAUNCHERS",
    "logger": "riskmatch.engine.loggers:LOGGERS",
}
"""Where each kind keeps its built-in parts: a mapping of names to parts, or a function giving one.

Named as text, and imported on first use, because these packages are built on this module.
"""
INSTANCE = "instance:"
"""Prefix of the name of a part that was passed as an object in Python."""
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class PartError(ValueError):
    """There is no part of this name, or it cannot be imported."""


@dataclass(frozen=True)
class Part:
    """A part and where it comes from."""

    kind: str
    name: str
    value: Any
    """The part itself: a class, a function or a value."""
    built_in: bool = False
    distribution: str | None = None
    """The installed package that holds it; None for a plain file."""
    version: str | None = None
    """Of that package."""
    sha256: str | None = None
    """Of the source file, where no installed package holds it."""

    def to_json(self) -> dict[str, str | None]:
        """What a record says of a part that is not built in."""
        origin = {"distribution": self.distribution, "version": self.version}
        return {"name": self.name, **origin, **({"sha256": self.sha256} if self.sha256 else {})}


def find(kind: Kind, name: str) -> Part:
    """The part called ``name``.

    Raises:
        PartError: there is no such part, or importing it fails.

    Example:
        >>> find("method", "vrex").value.__name__
        'VREx'
        >>> find("data", "json.decoder:JSONDecoder").value.__name__
        'JSONDecoder'
        >>> find("method", "vrx")
        Traceback (most recent call last):
        riskmatch.registry.PartError: Unknown method 'vrx'. Did you mean 'vrex'? ...
    """
    known = built_in(kind)
    if name in known:
        return Part(kind, name, known[name], built_in=True)
    announced = _entry_points(kind)
    if name in announced:
        entry = announced[name]
        distribution = entry.dist
        try:
            value = entry.load()
        except Exception as error:
            raise _cannot_import(kind, name, error) from error
        return Part(
            kind,
            name,
            value,
            distribution=distribution.name if distribution else None,
            version=distribution.version if distribution else None,
        )
    if is_own(name):
        return _own(kind, name)
    try:
        check_option(NOUNS[kind], name, names(kind))
    except ValueError as error:
        raise PartError(f"{error} One of your own is named package.module:Name.") from None
    raise AssertionError(name)


def part_of(kind: str, name: str, value: object) -> Part:
    """Describe an object that was not found by name, with the origin of its class or function."""
    module = value.__module__ if isinstance(value, FunctionType) else type(value).__module__
    return _part(kind, name, value, module)


def names(kind: Kind) -> list[str]:
    """The names of the built-in parts, then those that installed packages announce.

    Example:
        >>> names("method")[:3]
        ['causirl', 'coral', 'eqrm']
    """
    known = built_in(kind)
    return [*known, *(name for name in sorted(_entry_points(kind)) if name not in known)]


def is_own(name: str) -> bool:
    """Whether a name has the form ``package.module:Name``.

    Example:
        >>> is_own("my_methods:Robust"), is_own("rdm"), is_own("timm:resnet50.tv_in1k")
        (True, False, False)
    """
    return _OWN.fullmatch(name) is not None


def built_in(kind: Kind) -> Mapping[str, Any]:
    """The built-in parts by name."""
    module, _, attribute = _BUILT_IN[kind].partition(":")
    value = getattr(import_module(module), attribute)
    return cast(Mapping[str, Any], value() if callable(value) else value)


@cache
def _entry_points(kind: Kind) -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=GROUPS[kind])}


def _own(kind: Kind, name: str) -> Part:
    module_name, _, attribute = name.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise _cannot_import(kind, name, error) from error
    if not hasattr(module, attribute):
        public = [entry for entry in vars(module) if not entry.startswith("_")]
        try:
            check_option(f"name in {module_name}", attribute, public)
        except ValueError as error:
            raise PartError(f"The {NOUNS[kind]} '{name}' does not exist. {error}") from None
    return _part(kind, name, getattr(module, attribute), module_name)


def _part(kind: str, name: str, value: Any, module_name: str) -> Part:
    distribution = _distribution(module_name)
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return Part(
        kind,
        name,
        value,
        distribution=distribution,
        version=metadata.version(distribution) if distribution else None,
        sha256=None if distribution else _sha256(file),
    )


def _cannot_import(kind: Kind, name: str, error: Exception) -> PartError:
    cause = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    place = ""
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name == name.partition(":")[0].split(".")[0]
    ):
        place = " in the current folder or among the installed packages"
    return PartError(f"The {NOUNS[kind]} '{name}' cannot be imported: {cause.rstrip('.')}{place}.")


def _distribution(module: str) -> str | None:
    """The installed package that holds a module."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    return next(iter(metadata.packages_distributions().get(top, ())), None)


def _sha256(file: str | None) -> str | None:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None
