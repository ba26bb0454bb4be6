"""Find the data sets and the finished runs of an experiment on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from riskmatch.data import DATASETS
from riskmatch.experiments.experiment import STAND_IN, Budget, Experiment, Scope
from riskmatch.experiments.images import IMAGE_DATA
from riskmatch.runs import records
from riskmatch.runs.records import RunRecord
from riskmatch.sweep.plan import PlannedRun
from riskmatch.validation import check_option

SMOKE_LIMIT = 50_000
"""Largest number of images that the budget smoke reads; DomainNet would take hours."""


def available_data(
    experiment: Experiment,
    budget: Budget,
    names: Sequence[str] = (),
    data_dir: Path | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Data sets to run an experiment on, and the unavailable ones with the cure of each.

    Under the budget smoke, ``STAND_IN`` replaces images if none are available.

    Args:
        experiment: the experiment.
        budget: how much to run.
        names: some of the experiment's data sets; empty for all.
        data_dir: folder to search first.

    Raises:
        ValueError: no data set is available; the message has the commands that get them.
    """
    names = requested_data(experiment, names)
    missing = missing_data(names, data_dir)
    small = budget == "smoke" and set(names) <= set(IMAGE_DATA)
    large = {name for name in names if small and (DATASETS[name].samples or 0) > SMOKE_LIMIT}
    why = {**dict.fromkeys(large, "too large for --budget smoke"), **missing}
    unavailable = {name: why[name] for name in names if name in why}
    if available := tuple(name for name in names if name not in why):
        return available, unavailable
    if small:
        missing = missing_data([STAND_IN], data_dir)
    if missing:
        cures = " or ".join(f"{name} ({cure})" for name, cure in missing.items())
        raise ValueError(f"{experiment.paper} needs a data set that is not here. Get {cures}.")
    return (STAND_IN,), unavailable


def requested_data(experiment: Experiment, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Those data sets of an experiment that are in ``names``; all of them if it is empty."""
    for name in names:
        check_option(f"data set of {experiment.paper}", name, experiment.data)
    return tuple(name for name in experiment.data if name in names or not names)


def missing_data(names: Iterable[str], data_dir: Path | None = None) -> dict[str, str]:
    """Data sets that are not on this machine, each with the command that gets it."""
    cures = {name: DATASETS[name].cure(data_dir) for name in names}
    return {name: cure for name, cure in cures.items() if cure is not None}


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


def with_records(scope: Scope, finished: Iterable[RunRecord]) -> Scope:
    """The scope without the data sets that have no finished run."""
    names = {record.config.data for record in finished}
    without = {name: "no finished run" for name in scope.data if name not in names}
    data = tuple(name for name in scope.data if name in names)
    return replace(scope, data=data, unavailable={**scope.unavailable, **without})
