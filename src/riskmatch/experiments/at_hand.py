"""What of an experiment is on this machine: its data, and the records of its runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from riskmatch.data import DATASETS
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.experiments.experiment import STAND_IN, Budget, Experiment, Planned, Request
from riskmatch.runs import records
from riskmatch.runs.records import RunRecord
from riskmatch.validation import check_option

QUICK = 50_000
"""Images of a data set that the budget smoke reads, at most; DomainNet's would take hours."""
LARGER = "--budget laptop"


def data_at_hand(
    experiment: Experiment[Any],
    budget: Budget,
    wanted: Sequence[str] = (),
    root: Path | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The data sets for an experiment to run on, and the others, each with how to have it.

    Where none of its images is here, the budget smoke runs on ``STAND_IN``.

    Args:
        experiment: with its data sets.
        budget: how much to run.
        wanted: some of its data sets; none are all.
        root: a folder in which to look first.

    Raises:
        ValueError: there is nothing to run on; the message says what to do.
    """
    names = data_of(experiment, wanted)
    absent = cures(names, root)
    small = budget == "smoke" and BENCHMARKS.keys() >= set(names)
    if small:
        large = [name for name in names if (DATASETS[name].samples or 0) > QUICK]
        absent = {**dict.fromkeys(large, LARGER), **absent}
    here = tuple(name for name in names if name not in absent)
    if here:
        return here, absent
    lacking = cures([STAND_IN], root) if small else absent
    if lacking:
        told = " or ".join(f"{name} ({cure})" for name, cure in lacking.items())
        raise ValueError(f"Not on this machine, but can be had: {told}.")
    return (STAND_IN,), absent


def data_of(experiment: Experiment[Any], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The data sets of an experiment, or those of them that are wanted."""
    for name in wanted:
        check_option(f"data set of {experiment.paper}", name, experiment.data)
    return tuple(name for name in experiment.data if name in wanted or not wanted)


def begun(request: Request, found: Iterable[RunRecord]) -> Request:
    """The request on those of its data sets that have a run among the records."""
    names = {record.config.data for record in found}
    absent = {name: "no run is done" for name in request.data if name not in names}
    data = tuple(name for name in request.data if name in names)
    return replace(request, data=data, absent={**request.absent, **absent})


def cures(names: Iterable[str], root: Path | None = None) -> dict[str, str]:
    """The commands that would make data sets available, by name, for those that are not."""
    found = {name: DATASETS[name].cure(root) for name in names}
    return {name: cure for name, cure in found.items() if cure is not None}


def done(planned: Iterable[Planned], runs: Path) -> dict[str, RunRecord]:
    """The records of the runs that are done, by id; damaged ones are told of and left out."""
    found: dict[str, RunRecord] = {}
    for run in planned:
        try:
            record = records.find(runs / run.config.id)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)
            continue
        if record is not None and record.status == "done":
            found[run.config.id] = record
    return found
