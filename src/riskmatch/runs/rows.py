"""Read runs as columns of numbers, without the quantiles of their risks: tables need no more.

Every line is decoded and checked, so that whatever reads a run this way finds the same damage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import read_file
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import FILE, RunRecord, Status

NUMBERS = "loss", "seconds", "seconds_per_step", "peak_memory"
"""Numbers of an evaluation that every run has."""
_QUANTILES = re.compile(r', "quantiles": \[[-+0-9.e, nul]*\]')
"""Most of the text of an evaluation, which is left out."""
_END = "\n"

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
        data = read_file(path)
    except FileNotFoundError:
        return None
    try:
        text = data[: data.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise records.damage(path, line, f"is not UTF-8: {error.reason}") from None
    if not text.strip("\n"):
        return None
    short, left_out = _QUANTILES.subn("", text)
    begin, *entries = _entries(path, short[:-1])
    run = records.parse(path, 1, records.header, begin)
    end = entries[-1] if entries and entries[-1]["kind"] == "end" else {}
    ended = replace(run, status=end.get("status", "unfinished"), error=end.get("error"))
    try:
        evaluations = [_flat(entry) for entry in entries if entry["kind"] == "evaluation"]
        rows = _rows(begin["id"], ended, evaluations)
        if any(np.isinf(numbers).any() for _, numbers in rows.blocks):
            raise ValueError("a number is infinite")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        records.find(folder)  # raises an error that names the line
        raise records.damage(path, 2, f"or one after it cannot be read ({error})") from error
    if left_out != sum(len(numbers) * _scores(names) for names, numbers in rows.blocks):
        records.find(folder)  # raises, unless quantiles just have another form
    return rows


def _entries(path: Path, text: str) -> list[dict[str, Any]]:
    """Values of all lines, decoded at once, which is faster; one by one where one is damaged."""
    try:
        values = json.loads(f"[{text.replace(_END, ',')}]")
    except (ValueError, RecursionError):
        values = []
    if len(values) != text.count(_END) + 1:
        lines = enumerate(text.split(_END), 1)
        return [records.entry(path, number, line) for number, line in lines]
    return [records.check_entry(path, number, entry) for number, entry in enumerate(values, 1)]


def rows_of(run: RunRecord) -> RunRows:
    """The rows of a record in memory."""
    evaluations = [_flat({**vars(e), "scores": _plain(e.scores)}) for e in run.evaluations]
    return _rows(run.config.id, run, evaluations)


_Flat = tuple[int, str | None, tuple[str, ...], tuple[str, ...], list[Any]]
"""Step, worst domain, domains, names of columns and their numbers, of which NaN may be None."""


def _rows(id: str, run: RunRecord, evaluations: Sequence[_Flat]) -> RunRows:
    blocks: list[tuple[tuple[str, ...], list[list[Any]]]] = []
    for _, _, _, names, numbers in evaluations:
        if not blocks or blocks[-1][0] is not names:
            blocks.append((names, []))
        blocks[-1][1].append(numbers)
    return RunRows(
        id,
        run.config,
        run.status,
        run.error,
        len(run.data.classes) if run.data else None,
        [step for step, *_ in evaluations],
        [worst for _, worst, *_ in evaluations],
        tuple(dict.fromkeys(domain for _, _, domains, *_ in evaluations for domain in domains)),
        [(names, np.array(numbers, float)) for names, numbers in blocks],
    )


def _flat(entry: Mapping[str, Any]) -> _Flat:
    """An evaluation as columns, from its line in the record."""
    terms, raw, scores = entry["terms"], entry["raw"], entry["scores"]
    numbers = [*map(entry.__getitem__, NUMBERS), *terms.values(), *raw.values()]
    for own in scores.values():
        for score in own.values():
            numbers += score["accuracy"], score["risk"]
    splits = tuple(map(tuple, scores.values()))
    names = _names(tuple(terms), tuple(raw), tuple(scores), splits)
    return int(entry["step"]), entry["worst_domain"], tuple(scores), names, numbers


@lru_cache(maxsize=1024)
def _scores(names: tuple[str, ...]) -> int:
    """Number of scores of an evaluation with these columns."""
    return sum(name.startswith("risk/") for name in names)


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
            for domain, own in zip(domains, splits, strict=True)
            for split in own
            for what in ("accuracy", "risk")
        ),
    )


def _plain(scores: Mapping[str, Mapping[Any, Any]]) -> dict[str, dict[str, Any]]:
    return {
        domain: {split: vars(score) for split, score in splits.items()}
        for domain, splits in scores.items()
    }
