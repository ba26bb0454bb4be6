"""Which runs a path holds."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord
from riskmatch.sweep import plan

RUNS = plan.RUNS


@dataclass(frozen=True)
class RunOnFile:
    """A run and the folder of its files."""

    folder: Path
    record: RunRecord

    @property
    def config(self) -> RunConfig:
        """Of the run."""
        return self.record.config


@dataclass(frozen=True)
class Found:
    """What a report is about."""

    runs: tuple[RunOnFile, ...]
    """Each once, in the order of the paths and then of their ids."""
    plan: tuple[RunConfig, ...] = ()
    """The runs that sweeps among the paths should have; empty unless all paths are sweeps."""
    damaged: tuple[str, ...] = ()
    """Why runs could not be read."""


def find_runs(paths: Sequence[Path]) -> Found:
    """The runs of all paths.

    A path is the folder of a run, a folder of such folders, or a folder with ``runs`` in it: a
    sweep, or what ``riskmatch reproduce`` wrote. Of a sweep only the runs of its plan count.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.
    """
    if not paths:
        raise ValueError("Name a run, a folder of runs or a sweep.")
    runs: dict[str, RunOnFile] = {}
    damaged: list[str] = []
    plans = [_plan(path) for path in paths]
    for path, planned in zip(paths, plans, strict=True):
        for folder in _folders(path):
            if planned and folder.name not in planned:
                continue
            try:
                record = records.find(folder)
            except (ValueError, KeyError, TypeError) as error:
                damaged.append(f"{folder} is damaged and left out: {error}")
                continue
            if record is not None:
                runs.setdefault(record.config.id, RunOnFile(folder, record))
    if not runs:
        raise _nothing(paths, damaged)
    whole = [config for planned in plans for config in planned.values()] if all(plans) else []
    return Found(tuple(runs.values()), tuple(whole), tuple(damaged))


def newest(runs: Path) -> Path | None:
    """The folder of the run in ``runs`` that was last written to; None where there is none."""
    files = runs.glob(f"*/{records.FILE}")
    return max(
        (f.parent for f in files),
        key=lambda f: f.joinpath(records.FILE).stat().st_mtime,
        default=None,
    )


def _plan(path: Path) -> dict[str, RunConfig]:
    if not (path / plan.FILE).exists():
        return {}
    return {run.config.id: run.config for run in plan.read(path)}


def _folders(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}.")
    if path.name == records.FILE:
        return [path.parent]
    if (path / records.FILE).exists():
        return [path]
    inside = path / RUNS if (path / RUNS).is_dir() else path
    return [file.parent for file in sorted(inside.glob(f"*/{records.FILE}"))]


def _nothing(paths: Sequence[Path], damaged: Sequence[str]) -> Exception:
    if damaged:
        return ValueError(damaged[0])
    told = ", ".join(map(str, paths))
    if any((path / plan.FILE).exists() for path in paths):
        run = shlex.join(["riskmatch", "sweep", "run", str(paths[0])])
        return FileNotFoundError(f"No run of {told} has begun yet. Start with: {run}")
    return FileNotFoundError(
        f"{told} holds no run: name the folder of a run, of several runs, or of a sweep "
        f"(riskmatch train writes to {RUNS}/)."
    )
