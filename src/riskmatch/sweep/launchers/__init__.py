"""Launchers: where and how many at a time the runs of a sweep are trained.

A launcher is a frozen dataclass deriving from :class:`Launcher`; its fields are its options.
``riskmatch sweep run DIR --launcher package.module:Name`` uses one of your own, and
:mod:`riskmatch.testing.launchers` checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from riskmatch.registry import PartError, find
from riskmatch.sweep.launchers.base import Launcher
from riskmatch.sweep.launchers.local import Local, threads_per_job
from riskmatch.sweep.launchers.ray import Ray
from riskmatch.sweep.launchers.slurm import Slurm
from riskmatch.validation import check_option

__all__ = [
    "LAUNCHERS",
    "Launcher",
    "Local",
    "Ray",
    "Slurm",
    "launcher_class",
    "make_launcher",
    "threads_per_job",
]

LAUNCHERS: dict[str, type[Launcher]] = {"local": Local, "ray": Ray, "slurm": Slurm}
"""Built-in launchers by name."""


def make_launcher(
    launcher: Launcher | str = "local", options: Mapping[str, Any] | None = None
) -> Launcher:
    """Return a launcher from its name, or the given one.

    Args:
        launcher: a built-in name, ``package.module:Name`` or a launcher.
        options: values of the fields of a named launcher.

    Example:
        >>> make_launcher("local", {"jobs": 2})
        Local(jobs=2, device='auto')
    """
    if isinstance(launcher, Launcher):
        return launcher
    cls = launcher_class(launcher)
    names = [item.name for item in fields(cls)]
    for name in options or {}:
        check_option(f"option of the launcher {launcher}", name, names)
    return cls(**options or {})


def launcher_class(name: str) -> type[Launcher]:
    """Return the launcher class of a name.

    Raises:
        PartError: there is no such launcher, it cannot be imported, or it is not a launcher.
    """
    value = find("launcher", name).value
    if not (isinstance(value, type) and issubclass(value, Launcher)):
        raise PartError(f"{name} is not a launcher: derive it from riskmatch.sweep.Launcher.")
    if "__dataclass_fields__" not in vars(value):
        raise PartError(f"The launcher {name} must be decorated with @dataclass(frozen=True).")
    return value
