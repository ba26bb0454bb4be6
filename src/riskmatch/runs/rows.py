"""Runs as columns of numbers, without the quantiles of their risks: tables need no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import FILE, EvaluationLine, read_lines
from riskmatch.runs.records import RunRecord, Status, read_config
from riskmatch.runs.scores import Evaluation

NUMBERS = "loss", "seconds", "seconds_per_step", "peak_memory"
"""Numbers of an evaluation that every run has."""
Block = tuple[tuple[str, ...], NDArray[np.float64]]
"""Names of columns, and their numbers (evaluations, columns)."""


@dataclass(frozen=True)
class RunRows:
    """A run with a row per evaluation."""

    run: str
    """Its id."""
    config: RunConfig
    status: Status = "unfinished"
    error: str | None = None
    classes: int | None = None
    """Number of classes, where the record states it."""
    steps: Sequence[int] = ()
    worst_domains: Sequence[str | None] = ()
    domains: tuple[str, ...] = ()
    """Domains that any evaluation scores, in the order of the data set."""
    blocks: Sequence[Block] = ()
    """Numbers of consecutive evaluations with the same columns; missing ones are NaN."""

    def last(self, column: str) -> float:
        """Value of a column at the last evaluation; NaN where it has none."""
        names, numbers = self.blocks[-1] if self.blocks else ((), np.zeros((0, 0)))
        return float(numbers[-1, names.index(column)]) if column in names else np.nan


def read_rows(folder: Path) -> RunRows | None:
    """The run in a folder; None if there is no record with a complete first line.

    Raises:
        RecordError: a line is damaged.
        OSError: the record cannot be read.
    """
    path = folder / FILE
    try:
        read = read_lines(path)
    except FileNotFoundError:
        return None
    if read is None:
        return None
    header, lines, end = read
    classes = len(header.data.classes) if header.data else None
    run = RunRows(header.id, read_config(path, header), classes=classes)
    if end is not None:
        run = replace(run, status=end.status, error=end.error)
    return _with_rows(run, lines)


def rows_of(run: RunRecord) -> RunRows:
    """The rows of a record in memory."""
    classes = len(run.data.classes) if run.data else None
    rows = RunRows(run.config.id, run.config, run.status, run.error, classes)
    return _with_rows(rows, run.evaluations)


def _with_rows(run: RunRows, evaluations: Sequence[Evaluation | EvaluationLine]) -> RunRows:
    """A run with a row per evaluation."""
    blocks: list[tuple[tuple[str, ...], list[list[Any]]]] = []
    for evaluation in evaluations:
        names, numbers = _flat(evaluation)
        if not blocks or blocks[-1][0] is not names:
            blocks.append((names, []))
        blocks[-1][1].append(numbers)
    return replace(
        run,
        steps=[evaluation.step for evaluation in evaluations],
        worst_domains=[evaluation.worst_domain for evaluation in evaluations],
        domains=tuple(dict.fromkeys(d for evaluation in evaluations for d in evaluation.scores)),
        blocks=[(names, np.array(numbers, float)) for names, numbers in blocks],
    )


def _flat(line: Evaluation | EvaluationLine) -> tuple[tuple[str, ...], list[Any]]:
    """Names of the columns of an evaluation, and their numbers, of which NaN may be None."""
    numbers = [line.loss, line.seconds, line.seconds_per_step, line.peak_memory]
    numbers += [*line.terms.values(), *line.raw.values()]
    for splits in line.scores.values():
        for score in splits.values():
            numbers += score.accuracy, score.risk
    names = tuple(map(tuple, line.scores.values()))
    return _names(tuple(line.terms), tuple(line.raw), tuple(line.scores), names), numbers


@lru_cache(maxsize=1024)
def _names(
    terms: tuple[str, ...],
    raw: tuple[str, ...],
    domains: tuple[str, ...],
    splits: tuple[tuple[str, ...], ...],
) -> tuple[str, ...]:
    """Names of the columns of an evaluation; the same object for the same names."""
    return (
        *NUMBERS,
        *(f"term/{name}" for name in terms),
        *(f"raw/{name}" for name in raw),
        *(
            f"{what}/{split}/{domain}"
            for domain, scored in zip(domains, splits, strict=True)
            for split in scored
            for what in ("accuracy", "risk")
        ),
    )
