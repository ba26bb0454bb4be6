"""Launchers: where and how many at a time the runs of a sweep are trained.

A launcher is a frozen dataclass deriving from :class:`Launcher`; its fields are its options.
``riskmatch sweep run DIR --launcher package.module:Name`` uses one of your own, and
:mod:`riskmatch.testing.launchers` checks it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from riskmatch.data import OnProgress
from riskmatch.files import refuse_link
from riskmatch.registry import PartError, find
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import BusyError, lock
from riskmatch.sweep.board import Board, OnChange
from riskmatch.sweep.launchers.base import Launcher
from riskmatch.sweep.launchers.local import Local
from riskmatch.sweep.launchers.ray import Ray
from riskmatch.sweep.launchers.slurm import Slurm
from riskmatch.sweep.worker import SweepSettings

__all__ = [
    "LAUNCHERS",
    "Launcher",
    "Local",
    "Ray",
    "Slurm",
    "launcher_class",
    "make_launcher",
    "reopen",
    "run_all",
]

LAUNCHERS: dict[str, type[Launcher]] = {"local": Local, "ray": Ray, "slurm": Slurm}
"""Built-in launchers by name."""


def make_launcher(launcher: Launcher | str) -> Launcher:
    """Return the given launcher, or that of a name with its default options."""
    return launcher if isinstance(launcher, Launcher) else launcher_class(launcher)()


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


def run_all(
    configs: Sequence[RunConfig],
    out: Path,
    launcher: Launcher | str = "local",
    *,
    data_dir: Path | None = None,
    retry: bool = True,
    predictions: bool = False,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Board:
    """Train every run that is not yet done, shared ERM phases first.

    A run that fails does not stop the others. On Ctrl-C every run writes a checkpoint, from which
    the next call resumes. Several calls on one folder at the same time share the work: a run that
    another process trains is left to it.

    Args:
        configs: configurations of the runs.
        out: folder of their records.
        launcher: where to train: a launcher, or its name.
        data_dir: folder searched first for the files of data sets.
        retry: also train runs that failed before.
        predictions: store the predictions of every sample at each evaluation.
        on_change: called before the first run, during runs and after every run.
        on_progress: called while data sets are loaded.

    Raises:
        OSError: ``out`` is a link.
    """
    refuse_link(out)
    if retry:
        reopen(configs, out)
    board = Board.from_folder(configs, out)
    settings = SweepSettings(out, data_dir, predictions)
    try:
        make_launcher(launcher).launch(board, settings, on_change, on_progress)
    except KeyboardInterrupt:
        board.interrupted = True
    return board


def reopen(configs: Sequence[RunConfig], out: Path) -> None:
    """Mark failed runs and their ERM phases as unfinished, to resume from their checkpoints."""
    for id in Board.from_folder(configs, out).failed:
        with suppress(BusyError, OSError, ValueError), lock(out / id):
            run = records.find(out / id)
            if run is not None and run.status == "failed":
                records.rewind(out / id, sys.maxsize)
