"""Runs as one data frame: a row for every run and evaluation.

The records are read straight into columns, so that a sweep of thousands of runs takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import warnings
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig, acts_from, variant
from riskmatch.runs.records import PLAN, RunRecord, read_plan
from riskmatch.runs.rows import NUMBERS, RunRows, read_rows, rows_of
from riskmatch.space import without_later

RUNS = "runs"
"""The folder of the runs of a sweep."""
_OPTIONS = "data_options", "model_options"


@dataclass(frozen=True)
class Results:
    """The runs in some folders."""

    frame: pd.DataFrame
    """As :func:`results` returns it."""
    plan: tuple[RunConfig, ...] = ()
    """The runs that the sweeps should have; empty unless every path is a sweep."""
    damaged: tuple[str, ...] = ()
    """One line for each run that cannot be read, with its file and the cause."""

    def warn(self) -> None:
        """Warn of every damaged run, at the caller of the function that calls this."""
        for message in self.damaged:
            warnings.warn(message, stacklevel=3)


def results(*paths: str | Path) -> pd.DataFrame:
    """The runs in some folders as a data frame, with a row for every run and evaluation.

    A run that has not been evaluated yet has one row, in which ``step`` is missing. Damaged runs
    are left out with a warning.

    Columns:
        - ``run`` (its id), ``folder``, ``status`` (done, failed or unfinished), ``error``;
        - the configuration: ``data``, ``data_options`` and ``model_options`` (JSON), ``model``,
          ``method``, ``test_domains`` (a tuple), ``trial``, ``seed``, ``steps``, ``lr``, … and the
          hyper-parameters of the method as ``hparams/NAME``;
        - ``variant``: the method with what makes another method of it, such as ``rdm moments``;
        - ``draw``: an id of the hyper-parameters, equal for runs that differ in nothing but test
          domains, trial and seeds;
        - ``acts_from``: the step at which the warm-up of the method ends, see
          :func:`~riskmatch.runs.config.acts_from`; missing where the method never acts;
        - ``classes``: the number of classes, where the record states it;
        - ``domains`` (a tuple): the domains it was evaluated on, in the order of the data set;
        - of the evaluation: ``step``, ``loss``, ``worst_domain``, ``seconds``,
          ``seconds_per_step``, ``peak_memory``, ``term/NAME``, ``raw/NAME``, ``gradient/NAME``,
          ``accuracy/SPLIT/DOMAIN`` and ``risk/SPLIT/DOMAIN`` (splits: ``train``, ``val``).

    Args:
        paths: each the folder of a run, a folder of runs, or a sweep, of which only the runs of
            the plan count. A run in several paths counts once.

    Raises:
        FileNotFoundError: a path does not exist or holds no run.
        ValueError: every run is damaged.

    Example:
        >>> import riskmatch
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = riskmatch.train(
        ...         "colored-digits", "erm", "0.9", steps=20, eval_every=10, out=folder
        ...     )
        ...     frame = riskmatch.results(folder)
        >>> frame[["method", "test_domains", "status", "step"]].to_dict("list")
        {'method': ['erm', 'erm'], 'test_domains': [('0.9',), ('0.9',)], ..., 'step': [10, 20]}
        >>> bool(frame["accuracy/val/0.9"].between(0, 1).all())
        True
    """
    found = read_results(paths)
    found.warn()
    return found.frame


def read_results(paths: str | Path | Sequence[str | Path], *, begun: bool = True) -> Results:
    """The runs, plan and damaged runs of some folders; see :func:`results`.

    Args:
        paths: one or several, as for :func:`results`.
        begun: raise where all paths are sweeps of which no run has begun; else the data frame of
            such paths is empty.
    """
    folders = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not folders:
        raise ValueError("Give the folder of a run, a folder of runs or a sweep.")
    plans = [
        read_plan(folder / PLAN, lambda config, _: config) if (folder / PLAN).exists() else {}
        for folder in folders
    ]
    columns = _Columns()
    damaged = []
    for folder, plan in zip(folders, plans, strict=True):
        for run in run_folders(folder):
            if plan and run.name not in plan:
                continue
            try:
                if (rows := read_rows(run)) is not None:
                    columns.add(rows, str(run))
            except (ValueError, OSError) as error:
                damaged.append(f"{run} is damaged and left out: {error}")
    planned = [config for plan in plans for config in plan.values()] if all(plans) else []
    if not columns.runs and (begun or not planned):
        raise _no_runs(folders, damaged)
    return Results(columns.frame(), tuple(planned), tuple(damaged))


def frame_of(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """The data frame of :func:`results` for records in memory; their folders are empty."""
    columns = _Columns()
    for run in runs:
        columns.add(rows_of(run))
    return columns.frame()


def run_folders(path: Path) -> list[Path]:
    """The folders of the runs in ``path``: itself, those inside, or those inside its ``runs``."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.name == records.FILE:
        return [path.parent]
    if (path / records.FILE).exists():
        return [path]
    inside = path / RUNS if (path / RUNS).is_dir() else path
    return sorted(folder for folder in inside.iterdir() if _holds_run(folder))


def _holds_run(folder: Path) -> bool:
    """Whether a folder has a record, or cannot be read, which its reader reports."""
    try:
        (folder / records.FILE).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


class _Columns:
    """Columns under construction: lists for runs, arrays of numbers for evaluations."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self._sizes: list[int] = []
        self._steps = array("q")
        self._worst: list[str | None] = []
        self._numbers: dict[str, array[float]] = defaultdict(
            lambda: array("d"), {name: array("d") for name in NUMBERS}
        )

    def add(self, rows: RunRows, folder: str = "") -> None:
        """Add a run with its evaluations, unless it is there already."""
        if rows.run in self.runs:
            return
        config = rows.config
        settings = {item.name: getattr(config, item.name) for item in fields(config)}
        hparams = settings.pop("hparams")
        settings |= {name: _canonical(settings[name]) for name in _OPTIONS}
        ended = rows.status, rows.error, rows.domains
        derived = (variant(config), _draw(config), acts_from(config), rows.classes, *ended)
        values = zip(_RUN_COLUMNS, (rows.run, folder, *settings.values(), *derived), strict=True)
        self._sizes.append(max(1, len(rows.steps)))
        self._steps.extend(rows.steps or (-1,))
        self._worst.extend(rows.worst_domains or (None,))
        place = len(self._steps) - self._sizes[-1]
        for names, numbers in rows.blocks:
            for name, column in zip(names, numbers.T, strict=True):
                _pad(self._numbers[name], place)
                self._numbers[name].frombytes(column.tobytes())
            place += len(numbers)
        self.runs[rows.run] = {**dict(values), **{f"hparams/{k}": v for k, v in hparams.items()}}

    def frame(self) -> pd.DataFrame:
        """All runs, in the order in which they were added."""
        rows, steps = np.repeat(np.arange(len(self._sizes)), self._sizes), np.array(self._steps)
        runs = pd.DataFrame(list(self.runs.values()), columns=None if self.runs else _RUN_COLUMNS)
        repeated = runs.astype(_TYPES).take(rows).reset_index(drop=True)
        evaluations: dict[str, Any] = {
            "step": pd.arrays.IntegerArray(steps, steps < 0),
            "worst_domain": pd.array(self._worst, dtype="str"),
        }
        for name in sorted(self._numbers, key=_group):
            _pad(self._numbers[name], len(rows))
            evaluations[name] = np.frombuffer(self._numbers[name]) if len(rows) else np.zeros(0)
        return pd.concat([repeated, pd.DataFrame(evaluations, copy=False)], axis=1)


_RUN_COLUMNS = [
    *("run", "folder", *(item.name for item in fields(RunConfig) if item.name != "hparams")),
    *("variant", "draw", "acts_from", "classes", "status", "error", "domains"),
]


_TYPES: dict[str, Any] = {
    **dict.fromkeys(("lr", "weight_decay", "dropout", "clip"), float),
    **dict.fromkeys(("batch_size", "steps", "eval_every", "seed", "trial", "pretrain"), int),
    **dict.fromkeys(("run", "data", "method", "model", "variant"), "str"),
    **dict.fromkeys(("draw", "status", "error"), "str"),
    **dict.fromkeys(("acts_from", "classes"), "Int64"),
}
"""Types of columns that cannot be inferred where values are missing."""


_GROUPS = ("term", "raw", "gradient", "accuracy", "risk")


def _group(column: str) -> int:
    """The place of a column of numbers: those that every run has come first."""
    return _GROUPS.index(column.partition("/")[0]) if "/" in column else -1


def _pad(column: array[float], size: int) -> None:
    """Fill a column up with NaN."""
    if len(column) < size:
        column.extend([math.nan] * (size - len(column)))


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _draw(config: RunConfig) -> str:
    """The id of the hyper-parameters."""
    values = {item.name: getattr(config, item.name) for item in fields(config)}
    options = {k: v for k, v in values["data_options"].items() if k != "seed"}
    for name in ("test_domains", "trial", "seed"):
        del values[name]
    text = _canonical(without_later(RunConfig, {**values, "data_options": options}))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _no_runs(paths: Sequence[Path], damaged: Sequence[str]) -> Exception:
    if damaged:
        return ValueError(damaged[0])
    names = ", ".join(map(str, paths))
    if any((path / PLAN).exists() for path in paths):
        command = shlex.join(["riskmatch", "sweep", "run", str(paths[0])])
        return FileNotFoundError(f"No run of {names} has begun yet. Start with: {command}")
    return FileNotFoundError(
        f"{names} holds no run. Give the folder of a run, a folder of runs or a sweep "
        f"(riskmatch train writes to {RUNS}/)."
    )
