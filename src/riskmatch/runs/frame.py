"""Runs as data frames: one of the runs, one of their evaluations, or both as one.

The records are read straight into columns, and what belongs to a run is kept once, so that a sweep
of thousands of runs takes seconds and little memory.
"""

from __future__ import annotations

import json
import shlex
import warnings
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np
import pandas as pd

from riskmatch.metrics import MetricFacts
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig, acts_from, short_hash, title, variant
from riskmatch.runs.findings import fit_of
from riskmatch.runs.lines import Split
from riskmatch.runs.records import PLAN, RunRecord, StoredRun, read_plan
from riskmatch.runs.rows import NUMBERS, RunRows, indexed, rows_of
from riskmatch.runs.task import decode_metrics, metric_facts
from riskmatch.trust import is_own

RUNS = "runs"
"""The folder of the runs of a sweep."""
_OPTIONS = "data_options", "model_options"
Paths: TypeAlias = "str | Path | StoredRun | Sequence[str | Path | StoredRun]"
"""Folders of runs; a run stands for its folder."""


@dataclass(frozen=True)
class Results:
    """The runs in some folders."""

    runs: pd.DataFrame
    """A row for every run: the columns of :func:`results` up to those of evaluations."""
    evaluations: pd.DataFrame
    """A row for every evaluation, in the order of the runs: ``run``, and the columns of
    :func:`results` from ``step`` on."""
    plan: tuple[RunConfig, ...] = ()
    """The runs that the sweeps should have; empty unless every path is a sweep."""
    left_out: tuple[str, ...] = ()
    """One line for each run that cannot be read, with its file and the cause, and one for runs with
    an earlier source of their parts."""

    @cached_property
    def metrics(self) -> dict[str, MetricFacts]:
        """The metrics of the evaluations, by name."""
        return metrics_of(self.evaluations)

    @property
    def frame(self) -> pd.DataFrame:
        """Runs with their evaluations, as :func:`results` returns them."""
        frame = self.runs.merge(self.evaluations, how="left", on="run")
        frame.attrs = dict(self.evaluations.attrs)
        return frame

    def warn(self) -> None:
        """Warn of runs that are left out, at the caller of the function that calls this."""
        for message in self.left_out:
            warnings.warn(message, stacklevel=3)


def results(*paths: Paths) -> pd.DataFrame:
    """The runs in some folders as a data frame, with a row for every run and evaluation.

    A run that has not been evaluated yet has one row, in which ``step`` is missing. Damaged runs
    are left out with a warning.

    Columns:
        - ``run`` (its id), ``folder``, ``status`` (done, failed or unfinished), ``error``;
        - the configuration: ``data``, ``data_options`` and ``model_options`` (JSON), ``model``,
          ``method``, ``test_domains`` (a tuple), ``trial``, ``seed``, ``steps``, ``lr``, … and the
          hyper-parameters of the method as ``hparams/NAME``;
        - ``variant``: the method with what makes another method of it, such as ``rdm moments``, and
          ``title``, its name in tables;
        - ``plain``: whether the method is ERM at every step;
        - ``draw``: an id of the hyper-parameters, equal for runs that differ in nothing but test
          domains, trial and seeds;
        - ``acts_from``: the step at which the warm-up of the method ends, see
          :func:`~riskmatch.runs.config.acts_from`; missing where the method never acts;
        - ``classes``: the number of classes, where the record states it;
        - ``task``: its name, and ``metric``, the primary metric of the run;
        - ``shared_groups`` (a tuple): the domains with groups that other domains have, too;
        - ``fit``: how the fit of the training domains became worse once the method acted, see
          :data:`~riskmatch.runs.findings.Fit`; empty where it did not;
        - ``no_gradient``: whether the penalty of the method changes no weight of the network, as
          one on the features of a frozen backbone;
        - ``domains`` (a tuple): the domains it was evaluated on, in the order of the data set;
        - of the evaluation: ``step``, ``loss``, ``worst_domain``, ``seconds``,
          ``seconds_per_step``, ``peak_memory``, ``term/NAME``, ``raw/NAME``, ``gradient/NAME``,
          ``METRIC/SPLIT/DOMAIN``, such as ``accuracy/val/photo``, and ``risk/SPLIT/DOMAIN``
          (splits: ``train``, ``val``). :func:`metrics_of` tells more about the metrics.

    Args:
        paths: each the folder of a run, a folder of runs, or a sweep, of which only the runs of
            the plan count; a run; or a list of these. A run in several paths counts once.

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
    read = read_results(paths)
    read.warn()
    return read.frame


def read_results(paths: Paths | Sequence[Paths], *, begun: bool = True) -> Results:
    """The runs, plan and damaged runs of some folders; see :func:`results`.

    Args:
        paths: one or several, as for :func:`results`.
        begun: raise where all paths are sweeps of which no run has begun; else the data frames of
            such paths are empty.
    """
    folders = folders_of(paths)
    if not folders:
        raise ValueError("Give the folder of a run, a folder of runs or a sweep.")
    plans = [
        read_plan(folder / PLAN, lambda config, _: config) if (folder / PLAN).exists() else {}
        for folder in folders
    ]
    columns = _Columns()
    damaged, earlier = list[str](), list[str]()
    for folder, plan in zip(folders, plans, strict=True):
        inside = run_folders(folder)
        runs = [run for run in inside if not plan or run.name in plan]
        own_parts: dict[Path, RunRows] = {}
        with indexed(runs[0].parent if runs else folder, len(runs)) as read_run:
            for run in runs:
                try:
                    rows = read_run(run)
                except (ValueError, OSError) as error:
                    damaged.append(f"{run} cannot be read and is left out: {error}")
                    continue
                if rows is not None and rows.config.source:
                    own_parts[run] = rows
                elif rows is not None:
                    columns.add(rows, str(run))
        newest = _newest_sources(own_parts, plan)
        for run, rows in own_parts.items():
            if rows.config.source == newest[rows.config.part_names]:
                columns.add(rows, str(run))
        earlier += _earlier_sources(folder, {*inside} - {*runs}, own_parts, newest)
    planned = [config for plan in plans for config in plan.values()] if all(plans) else []
    if not columns.ids and (begun or not planned):
        raise _no_runs(folders, damaged)
    left_out = (*damaged, *earlier)
    return columns.results(planned, left_out)


Sources: TypeAlias = "dict[tuple[str, ...], str]"
"""Source of parts that are not built in, by the names of the parts of a run."""


def _newest_sources(runs: Mapping[Path, RunRows], plan: Mapping[str, RunConfig]) -> Sources:
    """The newest source by parts: that of the plan, else that of the record written last."""
    ordered = sorted(runs, key=lambda run: (run / records.FILE).stat().st_mtime_ns)
    newest = {runs[run].config.part_names: runs[run].config.source for run in ordered}
    return newest | {config.part_names: config.source for config in plan.values() if config.source}


def _earlier_sources(
    folder: Path, unplanned: Iterable[Path], runs: Mapping[Path, RunRows], newest: Sources
) -> Iterator[str]:
    """Say how many runs in a folder had another source of the same parts."""
    configs = [rows.config for rows in runs.values()]
    for run in unplanned if newest else ():
        with suppress(ValueError, OSError):
            configs.append(records.read(run).config)
    counts = Counter(
        config.part_names
        for config in configs
        if config.source and newest.get(config.part_names, config.source) != config.source
    )
    for names, count in counts.items():
        number = "1 run is" if count == 1 else f"{count} runs are"
        parts = ", ".join(filter(is_own, names)) or names[1]
        yield f"{folder}: {number} left out, with an earlier source of {parts}."


def folders_of(paths: Any) -> list[Path]:
    """The folders that paths and runs stand for."""
    if isinstance(paths, str | Path):
        return [Path(paths)]
    if isinstance(paths, StoredRun):
        return [paths.folder]
    if not isinstance(paths, Iterable):
        raise TypeError(f"Give the folders of runs as paths, got {paths!r}.")
    return [folder for entry in paths for folder in folders_of(entry)]


def results_of(runs: Iterable[RunRecord], plan: Iterable[RunConfig] = ()) -> Results:
    """Records in memory as :func:`read_results` returns them; their folders are empty."""
    columns = _Columns()
    for run in runs:
        columns.add(rows_of(run))
    return columns.results(plan)


def frame_of(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """The data frame of :func:`results` for records in memory; their folders are empty."""
    return results_of(runs).frame


def metrics_of(frame: pd.DataFrame) -> dict[str, MetricFacts]:
    """The metrics of a data frame of :func:`results`, by name.

    ``frame.attrs`` keeps what is known about them; where it was lost, built-in ones are known.

    Example:
        >>> list(metrics_of(pd.DataFrame(columns=["run", "rmse/val/north", "risk/val/north"])))
        ['rmse']
    """
    known = decode_metrics(frame.attrs.get("metrics", {}))
    parts = [str(column).split("/", 2) for column in frame]
    names = dict.fromkeys(
        part[0] for part in parts if len(part) == 3 and part[1] in get_args(Split)
    )
    return {name: metric_facts(name, known) for name in names if name not in _GROUPS}


def run_folders(path: Path) -> list[Path]:
    """The folders of the runs in ``path``: itself, those inside, or those inside its ``runs``."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.name == records.FILE:
        return [path.parent]
    if (path / records.FILE).exists():
        return [path]
    inside = path / RUNS if (path / RUNS).is_dir() else path
    return sorted(filter(_holds_run, inside.iterdir()), key=lambda folder: folder.name)


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
    """Columns under construction: a tuple for each run, arrays of numbers for evaluations."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        """Numbers of evaluations by run."""
        self._runs: list[tuple[Any, ...]] = []
        self._hparams: list[Mapping[str, Any]] = []
        self._steps = array("q")
        self._worst: list[str | None] = []
        self._same: dict[str | None, str | None] = {}
        """One object for each name of a domain."""
        self._blocks: dict[tuple[str, ...], tuple[array[int], array[float]]]
        self._blocks = {NUMBERS: (array("q"), array("d"))}
        """Rows of blocks and the numbers in them, by the names of the columns."""
        self._metrics: dict[str, MetricFacts] = {}

    def add(self, rows: RunRows, folder: str = "") -> None:
        """Add a run with its evaluations, unless it is there already."""
        if rows.run in self.ids:
            return
        config = rows.config
        settings = {name: getattr(config, name) for name in _SETTINGS}
        settings |= {name: _canonical(settings[name]) for name in _OPTIONS}
        known = variant(config), title(config), config.about.plain, _draw(config), acts_from(config)
        judged = rows.task.name, rows.task.primary, fit_of(rows), rows.no_gradient
        facts = rows.classes, rows.shared_groups, *judged, rows.status, rows.error, rows.domains
        self._metrics |= rows.task.metrics
        self._runs.append((rows.run, folder, *settings.values(), *known, *facts))
        self._hparams.append(config.hparams)
        self.ids[rows.run] = len(rows.steps)
        place = len(self._steps)
        self._steps.extend(rows.steps)
        self._worst.extend(self._same.setdefault(name, name) for name in rows.worst_domains)
        for block in rows.blocks:
            places, numbers = self._blocks.setdefault(block.names, (array("q"), array("d")))
            places.extend(range(place, place := place + len(block.numbers)))
            numbers.frombytes(block.data)

    def results(self, plan: Iterable[RunConfig] = (), left_out: tuple[str, ...] = ()) -> Results:
        """All runs that were added."""
        evaluations = self.evaluations()
        evaluations.attrs["metrics"] = {k: asdict(facts) for k, facts in self._metrics.items()}
        return Results(self.runs(), evaluations, tuple(plan), left_out)

    def runs(self) -> pd.DataFrame:
        """A row for every run, in the order in which they were added."""
        runs = pd.DataFrame(self._runs, columns=_RUN_COLUMNS).astype(_TYPES)
        hparams = pd.DataFrame(self._hparams, index=runs.index).add_prefix("hparams/")
        return pd.concat([runs, hparams], axis=1)

    def evaluations(self) -> pd.DataFrame:
        """A row for every evaluation."""
        runs = pd.Series(list(self.ids), dtype="str")
        names = sorted({name: 0 for names in self._blocks for name in names}, key=self._group)
        places = {name: place for place, name in enumerate(names)}
        # One array of all numbers: data frames of hundreds of single columns are slow.
        values = np.full((len(names), len(self._steps)), np.nan)
        for columns, (rows, numbers) in self._blocks.items():
            block = np.asarray(numbers).reshape(-1, len(columns))
            values[np.ix_([places[name] for name in columns], rows)] = block.T
        frame = pd.DataFrame(values.T, columns=names, copy=False)
        first = {
            "run": runs.repeat(list(self.ids.values())).reset_index(drop=True),
            "step": pd.Series(pd.array(np.array(self._steps), dtype="Int64")),
            "worst_domain": pd.Series(pd.array(self._worst, dtype="str")),
        }
        for place, (name, column) in enumerate(first.items()):
            frame.insert(place, name, column)
        return frame

    def _group(self, column: str) -> tuple[int, int]:
        """The place of a column of numbers: those that every run has come first, risks last."""
        what, separator, _ = column.partition("/")
        if not separator:
            return -1, 0
        if what in _GROUPS:
            return _GROUPS[what], 0
        return _METRIC, [*self._metrics, what].index(what)


_JUDGED = "task", "metric", "metrics"
"""Fields of a configuration in whose place columns tell what they came to."""
_SETTINGS = [f.name for f in fields(RunConfig) if f.name not in ("hparams", *_JUDGED)]
_VARIED = ("test_domains", "trial", "seed", "source")
_RUN_COLUMNS = [
    *("run", "folder", *_SETTINGS, "variant", "title", "plain", "draw"),
    *("acts_from", "classes", "shared_groups", "task", "metric", "fit", "no_gradient"),
    *("status", "error", "domains"),
]


_TYPES: dict[str, Any] = {
    **dict.fromkeys(("lr", "weight_decay", "dropout", "clip"), float),
    **dict.fromkeys(("batch_size", "steps", "eval_every", "seed", "trial", "pretrain"), int),
    **dict.fromkeys(("run", "data", "method", "model", "variant", "title"), "str"),
    **dict.fromkeys(("draw", "status", "error", "task", "metric"), "str"),
    **dict.fromkeys(("acts_from", "classes"), "Int64"),
    **dict.fromkeys(("plain", "no_gradient"), bool),
}
"""Types of columns that cannot be inferred where values are missing."""


_GROUPS = {"term": 0, "raw": 1, "gradient": 2, "risk": 4}
_METRIC = 3


_canonical = json.JSONEncoder(sort_keys=True).encode


def _draw(config: RunConfig) -> str:
    """The id of the hyper-parameters."""
    values = config.changed()
    options = {k: v for k, v in config.data_options.items() if k != "seed"}
    drawn = {name: value for name, value in values.items() if name not in _VARIED}
    return short_hash({**drawn, "data_options": options})


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
