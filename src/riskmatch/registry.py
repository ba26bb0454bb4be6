"""Find a part (method, data set, network, divergence, …) by its name.

Three kinds of names are accepted wherever a part is named:

1. a built-in name, such as ``rdm``;
2. a name that an installed package announces with an entry point, as of ``riskmatch.methods``;
3. ``package.module:Name``, imported as ``from package.module import Name`` would be.

The first that fits wins, so a built-in name always means the built-in part. Importing a part runs
its code; :mod:`riskmatch.trust` decides which names are imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Any, Literal, NamedTuple, cast

from riskmatch import source, trust
from riskmatch.trust import is_own
from riskmatch.validation import check_option

Kind = Literal[
    "method",
    "data",
    "model",
    "task",
    "metric",
    "divergence",
    "selection",
    "launcher",
    "estimator",
    "logger",
]


class _Home(NamedTuple):
    """Where the parts of a kind are found."""

    noun: str
    """What the kind is called in messages."""
    entry_points: str
    """Entry-point group in which installed packages announce parts."""
    built_in: str
    """Mapping of names to built-in parts, or a function giving one; named as text, and imported on
    first use, because its package is built on this module."""


_HOMES: dict[Kind, _Home] = {
    "method": _Home("method", "riskmatch.methods", "riskmatch.objectives:methods"),
    "data": _Home("data set", "riskmatch.data", "riskmatch.data.catalogue:DATASETS"),
    "model": _Home("network", "riskmatch.models", "riskmatch.models:NETWORKS"),
    "task": _Home("task", "riskmatch.tasks", "riskmatch.contract.task:TASKS"),
    "metric": _Home("metric", "riskmatch.metrics", "riskmatch.metrics:METRICS"),
    "divergence": _Home("divergence", "riskmatch.divergences", "riskmatch.divergence:DIVERGENCES"),
    "selection": _Home("selection rule", "riskmatch.selections", "riskmatch.selection:RULES"),
    "launcher": _Home("launcher", "riskmatch.launchers", "riskmatch.sweep.launchers:LAUNCHERS"),
    "estimator": _Home(
        "estimator",
        "riskmatch.estimators_of_accuracy",
        "riskmatch.deployment.estimation.calibration:ESTIMATORS",
    ),
    "logger": _Home("logger", "riskmatch.loggers", "riskmatch.engine.loggers:LOGGERS"),
}
INSTANCE = "instance:"
"""Prefix of the name of a part that was passed as an object in Python."""


class PartError(ValueError):
    """There is no part of this name, or it cannot be imported."""


class PartExitError(PartError):
    """A part ended the program when it was imported."""

    code = 3


@dataclass(frozen=True)
class Part:
    """A part and where it comes from."""

    kind: str
    name: str
    value: Any
    """The part itself: a class, a function or a value."""
    built_in: bool = False
    distribution: str | None = None
    """The installed distribution that holds it; None for a plain file."""
    version: str | None = None
    """Of that distribution."""
    source: str | None = None
    """Hash of its source, where no distribution holds it; see :mod:`riskmatch.source`."""

    def to_json(self) -> dict[str, str | None]:
        """What a record says of a part that is not built in."""
        origin = {"distribution": self.distribution, "version": self.version}
        return {"name": self.name, **origin, **({"source": self.source} if self.source else {})}


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
    announced = _entry_points(kind).get(name)
    if announced is not None or is_own(name):
        if not trust.may_import(name, announced is not None):
            raise PartError(
                f"{_called(kind, name)} is not imported, because importing it runs its code: "
                f"{trust.reason()}."
            )
        if announced is None:
            module, _, attribute = name.partition(":")
            return _imported(kind, name, module, attribute)
        return _imported(kind, name, announced.module, announced.attr, announced.dist)
    try:
        check_option(_HOMES[kind].noun, name, names(kind))
    except ValueError as error:
        raise PartError(f"{error} One of your own is named package.module:Name.") from None
    raise AssertionError(name)


def part_of(kind: str, name: str, value: object) -> Part:
    """Describe an object that was not found by name, with the origin of its class or function."""
    return _part(kind, name, value, source.definition(value).__module__)


def announced(kind: Kind, name: str) -> bool:
    """Whether an installed package announces a part of this name."""
    return name in _entry_points(kind)


def names(kind: Kind) -> list[str]:
    """The names of the built-in parts, then those that installed packages announce.

    Example:
        >>> {"erm", "rdm"} <= set(names("method"))
        True
    """
    known = built_in(kind)
    return [*known, *(name for name in sorted(_entry_points(kind)) if name not in known)]


def built_in(kind: Kind) -> Mapping[str, Any]:
    """The built-in parts by name."""
    module, _, attribute = _HOMES[kind].built_in.partition(":")
    value = getattr(import_module(module), attribute)
    return cast(Mapping[str, Any], value() if callable(value) else value)


@cache
def _entry_points(kind: Kind) -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=_HOMES[kind].entry_points)}


def _imported(
    kind: Kind,
    name: str,
    module_name: str,
    attribute: str,
    dist: metadata.Distribution | None = None,
) -> Part:
    """Import a part; modules beside the script or in the current folder are found last."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    script = None if "riskmatch.cli" in sys.modules else script  # that of a command is not
    for folder in (*([os.path.dirname(os.path.abspath(script))] if script else []), os.getcwd()):
        if folder not in sys.path and not (folder == os.getcwd() and "" in sys.path):
            sys.path.append(folder)
    try:
        module = import_module(module_name)
    except SystemExit as end:
        raise PartExitError(
            f"{_called(kind, name)} ended the program when it was imported, with SystemExit("
            f"{end.code!r}). Let its module do nothing but define parts."
        ) from end
    except Exception as error:
        raise _cannot_import(kind, name, error) from error
    if not hasattr(module, attribute):
        public = [entry for entry in vars(module) if not entry.startswith("_")]
        try:
            check_option(f"name in {module_name}", attribute, public)
        except ValueError as error:
            raise PartError(f"{_called(kind, name)} does not exist. {error}") from None
    value = getattr(module, attribute)
    if dist is not None and not source.is_editable(dist.name):
        return Part(kind, name, value, distribution=dist.name, version=dist.version)
    return _part(kind, name, value, module_name, attribute)


def _part(kind: str, name: str, value: Any, module: str, attribute: str = "") -> Part:
    if (distribution := source.distribution_of(module)) is not None:
        version = metadata.version(distribution)
        return Part(kind, name, value, distribution=distribution, version=version)
    try:
        return Part(kind, name, value, source=source.source_hash(value, module, attribute))
    except source.EditedError as error:
        raise PartError(str(error)) from error


def _cannot_import(kind: Kind, name: str, error: Exception) -> PartError:
    cause = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    place = ""
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name == name.partition(":")[0].split(".")[0]
    ):
        place = " beside the script, in the current folder or among the installed packages"
    return PartError(f"{_called(kind, name)} cannot be imported: {cause.rstrip('.')}{place}.")


def _called(kind: Kind, name: str) -> str:
    return f"The {_HOMES[kind].noun} '{name}'"
