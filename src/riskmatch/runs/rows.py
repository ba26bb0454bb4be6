"""Runs as columns of numbers, without the quantiles of their risks: tables need no more.

Parsing the records of thousands of runs takes longer than any table of them, so a folder of many
runs has an index: the file ``index.bin``, which can be removed at any time. An entry counts while
size, times and inode of its record are those it was made from; other records are parsed, and the
index is written again once that takes longer than writing it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from riskmatch.files import SETTLED, Stamp, file_stamp, read_file, refuse_link, write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import FILE, Evaluation, EvaluationLine, read_lines
from riskmatch.runs.method import MethodFacts
from riskmatch.runs.records import RunRecord, Status, without_evaluations
from riskmatch.runs.task import ACCURACY_ALONE, TaskFacts

NUMBERS = "loss", "seconds", "seconds_per_step", "peak_memory"
"""Numbers of an evaluation that every run has."""
INDEX = "index.bin"
MANY = 1000
"""An index is written when so many records had to be parsed."""


class Block(Struct, array_like=True):
    """Numbers of consecutive evaluations with the same columns."""

    names: tuple[str, ...]
    """Names of the columns."""
    data: memoryview

    @property
    def numbers(self) -> NDArray[np.float64]:
        """(evaluations, columns) the numbers; missing ones are NaN."""
        return np.frombuffer(self.data).reshape(-1, len(self.names))


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
    shared_groups: tuple[str, ...] = ()
    """Domains with groups that other domains have, too."""
    task: TaskFacts = ACCURACY_ALONE
    no_gradient: bool = False
    """Whether the penalty of the method changes no weight of the network."""
    steps: Sequence[int] = ()
    worst_domains: Sequence[str | None] = ()
    domains: tuple[str, ...] = ()
    """Domains that any evaluation scores, in the order of the data set."""
    blocks: Sequence[Block] = ()

    def last(self, column: str) -> float:
        """Value of a column at the last evaluation; NaN where it has none."""
        for block in self.blocks[-1:]:
            if column in block.names:
                return float(block.numbers[-1, block.names.index(column)])
        return np.nan


ReadRun = Callable[[Path], RunRows | None]
"""Reads the run in a folder, as :func:`read_rows` does."""


def read_rows(folder: Path) -> RunRows | None:
    """The run in a folder; None if there is no record with a complete first line.

    Raises:
        RecordError: a line is damaged.
        OSError: the record cannot be read.
    """
    if (read := read_lines(folder / FILE)) is None:
        return None
    return rows_of(without_evaluations(read), read.evaluations)


def rows_of(
    run: RunRecord, evaluations: Sequence[Evaluation | EvaluationLine] | None = None
) -> RunRows:
    """The rows of a record in memory, with these evaluations where they are given."""
    classes = len(run.data.classes) if run.data else None
    shared = run.data.shared_groups if run.data else ()
    about = classes, shared, run.task, run.no_gradient
    evaluations = run.evaluations if evaluations is None else evaluations
    blocks: list[tuple[tuple[str, ...], list[list[Any]]]] = []
    for evaluation in evaluations:
        names, numbers = _flat(evaluation)
        if not blocks or blocks[-1][0] is not names:
            blocks.append((names, []))
        blocks[-1][1].append(numbers)
    domains: dict[str, object] = {}
    for evaluation in evaluations:
        domains |= evaluation.scores
    return RunRows(
        run.config.id,
        run.config,
        run.status,
        run.error,
        *about,
        steps=[evaluation.step for evaluation in evaluations],
        worst_domains=[evaluation.worst_domain for evaluation in evaluations],
        domains=tuple(domains),
        blocks=[Block(names, np.array(numbers, float).data.cast("B")) for names, numbers in blocks],
    )


def _flat(line: Evaluation | EvaluationLine) -> tuple[tuple[str, ...], list[Any]]:
    """Names of the columns of an evaluation, and their numbers, of which NaN may be None."""
    numbers = [line.loss, line.seconds, line.seconds_per_step, line.peak_memory]
    numbers += [*line.terms.values(), *line.raw.values(), *line.gradients.values()]
    scored: list[str | None] = []
    for domain, splits in line.scores.items():
        for split, score in splits.items():
            numbers += score.metrics.values()
            numbers.append(score.risk)
            scored += domain, split, *score.metrics, None
    return _names(tuple(line.terms), tuple(line.raw), tuple(line.gradients), tuple(scored)), numbers


@lru_cache(maxsize=1024)
def _names(
    terms: tuple[str, ...],
    raw: tuple[str, ...],
    gradients: tuple[str, ...],
    scored: tuple[str | None, ...],
) -> tuple[str, ...]:
    """Names of the columns of an evaluation; the same object for the same names.

    ``scored`` has domain, split, metrics and None of one score after the other.
    """
    names = [*NUMBERS, *(f"term/{name}" for name in terms), *(f"raw/{name}" for name in raw)]
    names += (f"gradient/{name}" for name in gradients)
    entries = iter(scored)
    while (domain := next(entries, None)) is not None:
        split = next(entries)
        names += (f"{metric}/{split}/{domain}" for metric in iter(entries.__next__, None))
        names.append(f"risk/{split}/{domain}")
    return tuple(names)


class _Entry(NamedTuple):
    """A run in an index."""

    stamp: Stamp
    """That of the record."""
    about: MethodFacts
    """What is known about the method."""
    task: TaskFacts
    encoded: memoryview
    """:class:`RunRows` in MessagePack."""

    def rows(self) -> RunRows:
        """The rows, whose numbers stay where they are in memory."""
        rows = _DECODER.decode(self.encoded)
        rows.config.with_facts(self.about)
        return replace(rows, task=self.task)


class _Header(Struct):
    """Second line of an index, after its version. The rows of all runs and a checksum follow."""

    methods: list[MethodFacts]
    tasks: list[TaskFacts]
    runs: dict[str, tuple[Stamp, int, int, int]]
    """Stamp, places of method and task in the lists, and length of the rows in bytes."""


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(RunRows)


@contextmanager
def indexed(folder: Path, runs: int) -> Iterator[ReadRun]:
    """Read runs in a folder by its index, and update that; small folders have none.

    Args:
        folder: folder of the runs.
        runs: how many will be read.
    """
    if runs < MANY:
        yield read_rows
        return
    known, settled = _load(folder / INDEX), time.time_ns() - int(SETTLED * 1e9)
    used: dict[str, _Entry] = {}
    parsed, encoded, ends = 0, bytearray(), dict[str, tuple[Stamp, MethodFacts, TaskFacts, int]]()

    def read_run(run: Path) -> RunRows | None:
        nonlocal parsed
        try:
            stamp = file_stamp(run / FILE)
        except OSError:
            return read_rows(run)  # which raises an error with the cause
        entry = known.pop(run.name, None)
        if entry is not None and entry.stamp == stamp:
            with suppress(msgspec.DecodeError):  # then the record is parsed
                rows = entry.rows()
                used[run.name] = entry
                return rows
        parsed += 1
        read = read_rows(run)
        if read is not None and max(stamp[1:3]) < settled:
            alone = replace(read, task=ACCURACY_ALONE)  # facts that runs share are written once
            _ENCODER.encode_into(alone, encoded, -1)  # small objects would leave gaps in memory
            ends[run.name] = stamp, read.config.about, read.task, len(encoded)
        return read

    yield read_run
    if parsed >= MANY:
        start = 0
        for name, (stamp, about, task, end) in ends.items():
            used[name], start = _Entry(stamp, about, task, memoryview(encoded)[start:end]), end
        with suppress(OSError):  # such as a folder that may not be written
            refuse_link(folder)
            write_whole(folder / INDEX, *_encode(used))
    used.clear()
    encoded.clear()  # the caller still has read_run


def _encode(entries: dict[str, _Entry]) -> list[bytes | memoryview]:
    header = _Header([], [], {})
    for run, (stamp, about, task, encoded) in entries.items():
        if about not in header.methods:
            header.methods.append(about)
        if task not in header.tasks:
            header.tasks.append(task)
        places = header.methods.index(about), header.tasks.index(task)
        header.runs[run] = stamp, *places, len(encoded)
    parts: list[bytes | memoryview] = [_title(), msgspec.json.encode(header), b"\n"]
    parts += (entry.encoded for entry in entries.values())
    return [*parts, _checksum(parts)]


def _load(path: Path) -> dict[str, _Entry]:
    """The entries of an index; none if it is missing, damaged or of another version."""
    try:
        refuse_link(path)
        data, title = read_file(path), _title()
        body = memoryview(data)[:-4]
        if not data.startswith(title) or not data.endswith(_checksum([body])):
            return {}
        place = data.index(b"\n", len(title)) + 1
        header = msgspec.json.decode(data[len(title) : place], type=_Header)
        entries = {}
        for run, (stamp, method, task, size) in header.runs.items():
            facts = header.methods[method], header.tasks[task]
            entries[run] = _Entry(stamp, *facts, body[place : place + size])
            place += size
    except (OSError, LookupError, ValueError):
        return {}
    return entries


def _checksum(parts: Iterable[bytes | memoryview]) -> bytes:
    return reduce(lambda total, part: crc32(part, total), parts, 0).to_bytes(4, "big")


def _title() -> bytes:
    return f"riskmatch {version('riskmatch')}\n".encode()
