"""Reproduce tables and figures of the paper: train what is missing and write the files."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from riskmatch.data import OnProgress
from riskmatch.data.sources import missing_data
from riskmatch.defaults import PRESETS
from riskmatch.device import resolve_device
from riskmatch.experiments.catalogue import (
    EXPERIMENTS,
    available_data,
    name_of,
    requested_data,
)
from riskmatch.experiments.experiment import (
    BUDGETS,
    INITS,
    RUNS,
    SUFFIXES,
    Budget,
    ExperimentOption,
    FinishedRuns,
    Init,
    Outcome,
    Scope,
    run_ids,
)
from riskmatch.runs import records
from riskmatch.runs.records import RunRecord
from riskmatch.sweep.board import Board, OnChange
from riskmatch.sweep.launchers import Local, run_all
from riskmatch.sweep.plan import PlannedRun, check_outputs
from riskmatch.validation import check_option

OnPlan = Callable[[Scope, Sequence[PlannedRun]], None]


@dataclass(frozen=True)
class ExperimentInfo:
    """A table or figure of the paper and what it needs."""

    name: str
    paper: str
    """Number in the paper."""
    summary: str
    data: dict[str, str | None]
    """Data sets, each with the command that gets it; None if it is on this machine."""
    options: tuple[ExperimentOption, ...]
    """Options of :func:`reproduce` that apply."""
    runs: dict[Budget, int]
    """Number of runs, by budget."""


def list_experiments(data_dir: Path | str | None = None) -> list[ExperimentInfo]:
    """List every table and figure that can be reproduced; nothing is loaded or trained.

    Args:
        data_dir: folder to search first for data sets.

    Example:
        >>> list_experiments()[0].runs["paper"]
        990
    """
    folder = None if data_dir is None else Path(data_dir)
    infos = []
    for name, one in EXPERIMENTS.items():
        missing = missing_data(one.data, folder)
        data = dict.fromkeys(BUDGETS, one.data)
        with suppress(ValueError):  # no data: `missing` says so
            data["smoke"], _ = available_data(one, "smoke", data_dir=folder)
        needs = {data_set: missing.get(data_set) for data_set in one.data}
        runs = {budget: one.run_count(Scope(budget, data[budget])) for budget in BUDGETS}
        infos.append(ExperimentInfo(name, one.paper, one.summary, needs, one.options, runs))
    return infos


def reproduce(
    name: str,
    budget: Budget | None = None,
    *,
    out: Path | str | None = None,
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    search_seeds: Sequence[int] | None = None,
    init: Literal["random", "erm", "both"] = "both",
    preset: str | None = None,
    as_is: bool = False,
    overwrite: bool = False,
    jobs: int | None = None,
    data_dir: Path | str | None = None,
    device: str = "auto",
    on_plan: OnPlan = lambda scope, runs: None,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Outcome:
    """Train the runs of a table or figure that are not done yet, and write its files.

    Failed runs and interruptions are reported in the outcome; the same call again continues.
    All experiments with the same ``out`` share their runs.

    Args:
        name: name of the table or figure, such as ``table1``, ``pacs`` or ``fig3a``.
        budget: ``smoke`` is a check in seconds, ``laptop`` a smaller version, ``paper`` everything.
        out: output folder; by default ``reproduce``, or ``reproduce-smoke``.
        data: some of the experiment's data sets.
        methods: methods in place of the budget's; on image data sets also the user's own, as
            ``package.module:Name``.
        seeds: seeds in place of the budget's.
        search_seeds: seeds that run whole grids; the others run only the values selected on these.
        init: initialisation of the methods of Table 1.
        preset: ``paper`` or ``authors-code``, for runs on images; by default ``authors-code`` under
            the budget ``paper`` and none under the others.
        as_is: train nothing and use the runs that are done.
        overwrite: replace files of this table or figure that were made from other runs.
        jobs: number of runs at a time; by default one per core, and 1 for ``smoke``.
        data_dir: folder to search first for data sets.
        device: device to train on; ``auto`` is a GPU if there is one.
        on_plan: called with scope and runs before training, and again if runs are added.
        on_change: called with the state of all runs as training proceeds.
        on_progress: called for every image that is decoded or embedded.

    Raises:
        ValueError: unknown name, option that does not apply, no data set available, or
            ``out`` has such a file from other runs.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcome = reproduce("vlcs", "smoke", out=folder, methods=["erm"], jobs=1)
        >>> [path.suffix for path in outcome.output.files]
        ['.md', '.tex', '.csv']
    """
    seeds, search_seeds = (s if s is None else sorted({*s}) for s in (seeds, search_seeds))
    options: dict[ExperimentOption, Sequence[str | int] | str | None] = {
        "data": data,
        "methods": methods,
        "seeds": seeds,
        "search_seeds": search_seeds,
        "init": None if init == "both" else init,
        "preset": preset,
    }
    given = {option: value for option, value in options.items() if value is not None}
    name = name_of(name)
    if budget is None:
        raise ValueError("Give --budget smoke, laptop or paper (budget= in Python).")
    check_option("budget", budget, BUDGETS)
    if preset is not None:
        check_option("preset", preset, PRESETS)
    experiment = EXPERIMENTS[name]
    for option in given:
        if option not in experiment.options:
            others = [other for other, one in EXPERIMENTS.items() if option in one.options]
            raise ValueError(f"{name} does not take {option}; these do: {', '.join(others)}.")
    folder = Path(out or ("reproduce-smoke" if budget == "smoke" else "reproduce"))
    source = None if data_dir is None else Path(data_dir)
    if as_is and budget != "smoke":  # finished runs need no data
        available, unavailable = requested_data(experiment, data or ()), dict[str, str]()
    else:
        available, unavailable = available_data(experiment, budget, data or (), source)
    inits: tuple[Init, ...] = INITS if init == "both" else (init,)
    scope = Scope(budget, available, unavailable, methods, seeds, search_seeds, inits, preset)
    planned = experiment.plan(scope)
    files = FinishedRuns(name, scope, planned, {}, folder, "")
    check_outputs(map(files.file, SUFFIXES), planned, run_ids(folder), overwrite)
    launcher = Local(1 if jobs is None and budget == "smoke" else jobs, resolve_device(device))

    def train(runs: Sequence[PlannedRun]) -> Board:
        return run_all(
            [run.config for run in runs],
            folder / RUNS,
            launcher,
            data_dir=source,
            predictions=experiment.predictions,
            on_change=on_change,
            on_progress=on_progress,
        )

    on_plan(scope, planned)
    board = None if as_is else train(planned)
    if experiment.refine is not None:
        first = {run.config.id for run in planned}
        planned = experiment.refine(scope, finished_records(planned, folder / RUNS))
        more = not first.issuperset(run.config.id for run in planned)
        if board is not None and more and not board.interrupted:
            on_plan(scope, planned)
            board = train(planned)
    done = finished_records(planned, folder / RUNS)
    enough = bool(done) and (experiment.partial or len(done) == len(planned))
    if as_is:
        if not enough:
            need = f"{name} needs all of its {len(planned)} runs; {len(done)} are finished in"
            cause = need if done else f"No run of {name} is finished in"
            raise ValueError(f"{cause} {folder}. Train them first, without --as-is.")
        names = {record.config.data for record in done.values()}
        without = {name: "no finished run" for name in scope.data if name not in names}
        used = tuple(name for name in scope.data if name in names)
        scope = replace(scope, data=used, unavailable={**scope.unavailable, **without})
        planned = [run for run in planned if run.config.data in names]
    command = ["riskmatch", "reproduce", name, "--budget", budget]
    for option, value in given.items():
        text = value if isinstance(value, str) else ",".join(map(str, value))
        command += [f"--{option.replace('_', '-')}", text]
    finished = FinishedRuns(name, scope, planned, done, folder, shlex.join(command), source)
    output = experiment.write(finished) if enough else None
    if board is None:
        return Outcome(output)
    return Outcome(output, board.error_message(planned), board.interrupted, board.failed)


def reproduce_all(
    budget: Budget,
    *,
    on_start: Callable[[str, int, int], None] = lambda name, number, total: None,
    **options: Any,
) -> Iterator[tuple[str, Outcome]]:
    """Reproduce every table and figure; yields the name and outcome of each.

    An experiment that fails does not stop the others; an interruption does. ``on_start`` is called
    with the name, number and total of the experiments; other options are those of
    :func:`reproduce` that every experiment takes.
    """
    for number, name in enumerate(EXPERIMENTS, 1):
        on_start(name, number, len(EXPERIMENTS))
        try:
            outcome = reproduce(name, budget, **options)
        except TypeError:  # an option that there is not
            raise
        except Exception as error:
            cause = str(error) if isinstance(error, ValueError) else repr(error)
            outcome = Outcome(None, cause)
        yield name, outcome
        if outcome.interrupted:
            return


def finished_records(planned: Iterable[PlannedRun], runs: Path) -> dict[str, RunRecord]:
    """Records of the planned runs that are done, by run id; warns of damaged files."""
    finished: dict[str, RunRecord] = {}
    for run in planned:
        try:
            record = records.find(runs / run.config.id)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)
            continue
        if record is not None and record.status == "done":
            finished[run.config.id] = record
    return finished
