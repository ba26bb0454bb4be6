"""Images listed in a manifest: CSV, JSON or Parquet with the columns path, label, domain."""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from riskmatch.data.images.index import Entry, ImageIndex, spelt
from riskmatch.data.images.packed import parquet_file

COLUMNS = ("path", "label", "domain")
RELATIVE = "Paths are relative to the folder of the manifest, or absolute."

Row = tuple[str, Mapping[str, Any]]
"""Where a row stands, such as "line 7", and its values by column."""


def index_manifest(path: Path, name: str | None = None) -> ImageIndex:
    """The images that a manifest lists.

    Args:
        path: a file ``.csv``, ``.tsv``, ``.json`` (a list of objects), ``.jsonl`` (an object per
            line) or ``.parquet``. Images are relative to its folder, or absolute. Labels that are
            all whole numbers keep their order. Blanks around a value are none of it.
        name: of the data set; that of the file, where nothing is said.

    Raises:
        FileNotFoundError: there is no such manifest, or no image where it says.
        ValueError: a row or column is wrong; the message names it.
    """
    listed = read_manifest(path)
    missing = [entry for entry in listed if not (path.parent / entry.path).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{path}, {listed[missing[0]]}: there is no file {path.parent / missing[0].path} "
            f"({len(missing):,} of {len(listed):,} are missing). {RELATIVE}"
        )
    return index_entries(path, listed, name)


def read_manifest(path: Path) -> dict[Entry, str]:
    """The images that a manifest lists, whether they are there or not, and where each stands.

    Raises:
        FileNotFoundError: there is no such manifest.
        ValueError: a row or column is wrong; the message names it.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no manifest {path}.")
    listed, first = dict[Entry, str](), dict[str, str]()
    for where, row in _READERS[_ending(path)](path):
        _check_columns(path, row)
        entry = Entry(*(_value(path, where, column, row[column]) for column in COLUMNS))
        if entry.path in first:
            raise ValueError(
                f"{path}: {entry.path} is there twice, {first[entry.path]} and {where}."
            )
        first[entry.path] = listed[entry] = where
    if not listed:
        raise ValueError(f"{path} lists no images; it needs rows of {', '.join(COLUMNS)}.")
    return listed


def index_entries(path: Path, entries: Iterable[Entry], name: str | None = None) -> ImageIndex:
    """The index of images that the manifest ``path`` lists."""
    found = list(entries)
    labels = sorted({spelt(entry.label) for entry in found})
    if all(re.fullmatch(r"[+-]?\d+", label) for label in labels):
        labels.sort(key=int)
    return ImageIndex.of(name or path.stem, path.parent, found, labels)


def is_manifest(path: Path) -> bool:
    """Whether the name is that of a manifest."""
    return path.suffix.lower() in _READERS


def _ending(path: Path) -> str:
    if not is_manifest(path):
        raise ValueError(f"{path} is no manifest: its name ends in none of {' '.join(_READERS)}.")
    return path.suffix.lower()


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); save it as UTF-8.") from error


def _read_csv(path: Path) -> Iterator[Row]:
    file = io.StringIO(_text(path), newline="")
    delimiter = max(",;\t|", key=file.readline().count)
    file.seek(0)
    rows = csv.DictReader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in rows:
            where = f"line {rows.line_num}"
            if None in row:
                raise ValueError(
                    f"{path}, {where} has more values than there are columns; put quotes around a "
                    f"value that holds {delimiter!r}."
                )
            yield where, {str(column).strip(): value for column, value in row.items()}
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}.") from error


def _read_json(path: Path) -> Iterator[Row]:
    rows = _parsed(path, "the file", _text(path))
    if not isinstance(rows, list):
        raise ValueError(
            f'{path} holds no list; it needs [{{"path": …, "label": …, "domain": …}}, …], or '
            f"the name .jsonl and an object per line."
        )
    yield from _objects(path, ((f"item {place}", row) for place, row in enumerate(rows, 1)))


def _read_json_lines(path: Path) -> Iterator[Row]:
    lines = enumerate(_text(path).split("\n"), 1)
    numbered = ((f"line {place}", line) for place, line in lines if line.strip())
    yield from _objects(path, ((where, _parsed(path, where, line)) for where, line in numbered))


def _objects(path: Path, rows: Iterable[tuple[str, Any]]) -> Iterator[Row]:
    for where, row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"{path}, {where} is no object with {', '.join(COLUMNS)}.")
        yield where, row


def _parsed(path: Path, where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: {where} is no JSON: {error}.") from error


def _read_parquet(path: Path) -> Iterator[Row]:
    table = parquet_file(path)
    names = table.schema_arrow.names
    _check_columns(path, dict.fromkeys(names))
    place = 0
    for batch in table.iter_batches(columns=list(COLUMNS)):
        for row in batch.to_pylist():
            place += 1
            yield f"row {place}", row


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}


def _check_columns(path: Path, row: Mapping[str, Any]) -> None:
    for column in COLUMNS:
        if column not in row:
            others = [name for name in row if name not in COLUMNS]
            near = difflib.get_close_matches(column, others, n=1)
            cure = f"Rename {near[0]!r} to {column!r}." if near else f"Add {column!r}."
            raise ValueError(
                f"{path} has no column {column!r}; it has {', '.join(map(repr, row))}. {cure}"
            )


def _value(path: Path, where: str, column: str, value: Any) -> str:
    """A value as text; whole numbers may be labels and domains."""
    whole = isinstance(value, int) and not isinstance(value, bool) and column != "path"
    text = str(value).strip() if whole or isinstance(value, str) else ""
    if text:
        return text
    empty = value is None or isinstance(value, str)
    what = "is empty" if empty else f"is {value!r}, not text"
    raise ValueError(f"{path}, {where}: the {column} {what}. Give every image a {column}.")
