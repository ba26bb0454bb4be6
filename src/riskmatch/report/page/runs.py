"""Find the runs below paths."""

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
class StoredRun:
    """A run and the folder of its files."""

    folder: Path
    record: RunRecord

    @property
    def config(self) -> RunConfig:
        """Configuration of the run."""
        return self.record.config


@dataclass(frozen=True)
class RunSet:
    """Runs of a report."""

    runs: tuple[StoredRun, ...]
    """Distinct runs in the order of the paths, then of their ids."""
    plan: tuple[RunConfig, ...] = ()
    """Runs planned by sweeps; empty unless all paths are sweeps."""
    damaged: tuple[str, ...] = ()
    """Messages about runs that could not be read."""


def as_paths(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """One path or several, as a list."""
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


def find_runs(paths: Sequence[Path]) -> RunSet:
    """Read the runs below all paths.

    A path is the folder of a run, a folder of such folders, or a folder with ``runs`` in it: a
    sweep, or what ``riskmatch reproduce`` wrote. Of a sweep only planned runs are read.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.
    """
    if not paths:
        raise ValueError("Give the folder of a run, of several runs, or of a sweep.")
    runs: dict[str, StoredRun] = {}
    damaged: list[str] = []
    plans = [_plan(path) for path in paths]
    for path, planned in zip(paths, plans, strict=True):
        for folder in _folders(path):
            if planned and folder.name not in planned:
                continue
            try:
                record = records.find(folder)
            except (ValueError, KeyError, TypeError) as error:
                damaged.append(f"{folder} is damaged and skipped: {error}")
                continue
            if record is not None:
                runs.setdefault(record.config.id, StoredRun(folder, record))
    if not runs:
        raise _no_runs(paths, damaged)
    configs = [config for planned in plans for config in planned.values()] if all(plans) else []
    return RunSet(tuple(runs.values()), tuple(configs), tuple(damaged))


def find_run(name: str | None, out: Path) -> Path:
    """Folder of a run by its path or the first digits of its id in ``out``; None is the newest run.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: several runs fit.
    """
    if name is None:
        files = list(out.glob(f"*/{records.FILE}"))
        if not files:
            raise FileNotFoundError(
                f"There is no run in {out}/. Name one, or train one: riskmatch train"
            )
        return max(files, key=lambda file: file.stat().st_mtime).parent
    if Path(name).exists():
        return Path(name)
    matches = sorted(path for path in out.glob(f"{name}*") if path.is_dir())
    if not matches:
        raise FileNotFoundError(f"There is no folder {name}, and no run of that id in {out}/.")
    if len(matches) > 1:
        raise ValueError(f"{len(matches)} runs in {out}/ start with {name}; give more digits.")
    return matches[0]


def _plan(path: Path) -> dict[str, RunConfig]:
    if not (path / plan.FILE).exists():
        return {}
    return {run.config.id: run.config for run in plan.read(path)}


def _folders(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.name == records.FILE:
        return [path.parent]
    if (path / records.FILE).exists():
        return [path]
    inside = path / RUNS if (path / RUNS).is_dir() else path
    return [file.parent for file in sorted(inside.glob(f"*/{records.FILE}"))]


def _no_runs(paths: Sequence[Path], damaged: Sequence[str]) -> Exception:
    if damaged:
        return ValueError(damaged[0])
    names = ", ".join(map(str, paths))
    if any((path / plan.FILE).exists() for path in paths):
        command = shlex.join(["riskmatch", "sweep", "run", str(paths[0])])
        return FileNotFoundError(f"No run of {names} has started yet. Start with: {command}")
    return FileNotFoundError(
        f"{names} holds no run. Give the folder of a run, of several runs, or of a sweep "
        f"(riskmatch train writes to {RUNS}/)."
    )
