"""Index of a folder of runs: the rows of records that were parsed before.

Parsing the records of thousands of runs takes longer than any table of them. The index is the file
``index.bin`` in the folder of the runs; it can be removed at any time. An entry counts while size,
times and inode of its record are those it was made from; other records are parsed, and the index is
written again once that takes longer than writing it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import SETTLED, Stamp, file_stamp, read_file, refuse_link, write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.runs.method import decode_facts, encode_facts
from riskmatch.runs.records import FILE
from riskmatch.runs.rows import Block, RunRows, read_rows

INDEX = "index.bin"
MANY = 1000
"""An index is written when so many records had to be parsed."""
LARGE = 1 << 20
"""Numbers in an array of :class:`_Store`."""

_MALFORMED = AttributeError, LookupError, RecursionError, TypeError, ValueError
"""Errors of values that are not those of an index."""

ReadRun = Callable[[Path], RunRows | None]
"""Reads the run in a folder, as :func:`riskmatch.runs.rows.read_rows` does."""


class _Entry(NamedTuple):
    stamp: Stamp
    """That of the record."""
    head: str
    """The fields of :class:`RunRows` but for its blocks, as JSON."""
    about: str
    """What is known about the method, as JSON."""
    blocks: list[Block]


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
    store, parsed = _Store(), 0

    def read_run(run: Path) -> RunRows | None:
        nonlocal parsed
        try:
            stamp = file_stamp(run / FILE)
        except OSError:
            return read_rows(run)  # which raises an error with the cause
        entry = known.pop(run.name, None)
        if entry is not None and entry.stamp == stamp:
            with suppress(*_MALFORMED):  # then the record is parsed
                rows = _rows(entry)
                used[run.name] = entry
                return rows
        parsed += 1
        read = read_rows(run)
        if read is not None and max(stamp[1:3]) < settled:
            used[run.name] = entry = _entry(stamp, read, store)
            return replace(read, blocks=entry.blocks)
        return read

    yield read_run
    if parsed >= MANY:
        with suppress(OSError):  # such as a folder that may not be written
            refuse_link(folder)
            write_whole(folder / INDEX, *_encode(used))


class _Store:
    """Copies of arrays in a few large ones: many small ones would leave gaps in memory."""

    def __init__(self) -> None:
        self._free = np.empty(0)

    def copy(self, array: NDArray[np.float64]) -> NDArray[np.float64]:
        if array.size > self._free.size:
            self._free = np.empty(max(LARGE, array.size))
        copied, self._free = self._free[: array.size], self._free[array.size :]
        copied[:] = array.ravel()
        return copied.reshape(array.shape)


def _entry(stamp: Stamp, rows: RunRows, store: _Store) -> _Entry:
    config = {item.name: getattr(rows.config, item.name) for item in fields(RunConfig)}
    ended, evaluated = (rows.status, rows.error), (rows.steps, rows.worst_domains, rows.domains)
    head = json.dumps((rows.run, config, *ended, rows.classes, *evaluated))
    about = encode_facts(rows.config.about)
    return _Entry(
        stamp, head, about, [(names, store.copy(numbers)) for names, numbers in rows.blocks]
    )


def _rows(entry: _Entry) -> RunRows:
    run, config, status, error, classes, steps, worst, domains = json.loads(entry.head)
    made, domains = RunConfig.from_json(config, decode_facts(entry.about)), tuple(domains)
    return RunRows(run, made, status, error, classes, steps, worst, domains, entry.blocks)


def _encode(entries: dict[str, _Entry]) -> list[Any]:
    """A line with the version, a line of JSON, the numbers of all blocks, and a checksum."""
    names: dict[tuple[str, ...], int] = {}
    methods: dict[str, int] = {}
    runs = {
        run: [
            *(stamp, head, methods.setdefault(about, len(methods))),
            [(names.setdefault(n, len(names)), len(rows)) for n, rows in blocks],
        ]
        for run, (stamp, head, about, blocks) in entries.items()
    }
    values = {"names": list(names), "methods": list(methods), "runs": runs}
    parts: list[Any] = [_title(), json.dumps(values).encode(), b"\n"]
    parts += (np.ascontiguousarray(rows) for entry in entries.values() for _, rows in entry.blocks)
    return [*parts, _checksum(parts)]


def _load(path: Path) -> dict[str, _Entry]:
    """The entries of an index; none if it is missing, damaged or of another version."""
    try:
        refuse_link(path)
        data, title = read_file(path), _title()
        body = memoryview(data)[:-4]
        if not data.startswith(title) or not data.endswith(_checksum([body])):
            return {}
        end = data.index(b"\n", len(title))
        values, numbers = json.loads(data[len(title) : end]), np.frombuffer(body[end + 1 :])
        names, entries, place = list(map(tuple, values["names"])), {}, 0
        for run, (stamp, text, method, blocks) in values["runs"].items():
            read = []
            for number, rows in blocks:
                size = rows * len(names[number])
                read.append((names[number], numbers[place : place + size].reshape(rows, -1)))
                place += size
            entries[run] = _Entry(tuple(stamp), text, values["methods"][method], read)
    except (OSError, *_MALFORMED):
        return {}
    return entries


def _checksum(parts: Iterable[Any]) -> bytes:
    return reduce(lambda total, part: crc32(part, total), parts, 0).to_bytes(4, "big")


def _title() -> bytes:
    return f"riskmatch {version('riskmatch')}\n".encode()
