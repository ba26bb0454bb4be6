"""Read manifests: CSV, JSON or Parquet files that list images with labels and domains."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.data.images.index import Entry, ImageIndex, normalised_name
from riskmatch.data.table_files import column_names, read_csv, read_parquet
from riskmatch.files import read_file
from riskmatch.validation import listed

COLUMNS = ("path", "label", "domain")
ROW_BYTES = 400
"""Memory of a row of a Parquet file while it is read, besides its values."""
RELATIVE = "Paths must be absolute or relative to the folder of the manifest."

Row = tuple[str, Any]
"""Location of a row, such as "line 7", and its values by column."""


def index_manifest(path: Path) -> ImageIndex:
    """The images that a manifest lists.

    Args:
        path: a file ``.csv``, ``.tsv``, ``.json`` (a list of objects), ``.jsonl`` (an object per
            line) or ``.parquet`` with the columns path, label and domain. Image paths are absolute
            or relative to its folder. Labels that are all whole numbers are sorted as numbers.
            Blanks around a value are ignored.

    Raises:
        FileNotFoundError: the manifest or an image that it lists does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    listed = read_manifest(path)
    missing = [entry for entry in listed if not (path.parent / entry.path).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{path}, {listed[missing[0]]}: {path.parent / missing[0].path} does not exist "
            f"({len(missing):,} of {len(listed):,} files are missing). {RELATIVE}"
        )
    return index_entries(path, listed)


def read_manifest(path: Path) -> dict[Entry, str]:
    """The images that a manifest lists, existing or not, with the location of each row.

    Raises:
        FileNotFoundError: the manifest does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    listed, first = dict[Entry, str](), dict[str, str]()
    for location, values in _rows(path, COLUMNS):
        entry = Entry(*values)
        if entry.path in first:
            raise ValueError(
                f"{path} lists {entry.path} twice, in {first[entry.path]} and {location}."
            )
        first[entry.path] = listed[entry] = location
    return listed


def manifest_paths(path: Path) -> list[str]:
    """The image paths that a manifest lists, existing or not; it needs no labels or domains.

    Raises:
        FileNotFoundError: the manifest does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    return [values[0] for _, values in _rows(path, ("path",))]


def listed_files(path: Path) -> list[Path]:
    """The image files that a manifest lists; none if the file is no manifest."""
    try:
        return [path.parent / name for name in manifest_paths(path)]
    except (OSError, ValueError):
        return []


def index_entries(path: Path, entries: Collection[Entry]) -> ImageIndex:
    """The index of images that the manifest ``path`` lists, named after the file."""
    labels = sorted({normalised_name(entry.label) for entry in entries})
    if all(re.fullmatch(r"[+-]?\d+", label) for label in labels):
        labels.sort(key=int)
    return ImageIndex.of(path.stem, path.parent, entries, labels)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Location and values of each row, in the order of ``columns``."""
    if not path.exists():
        raise FileNotFoundError(f"There is no manifest {path}.")
    if not is_manifest(path):
        raise ValueError(f"{path} is not a manifest; its extension must be {' '.join(_READERS)}.")
    empty = True
    for location, row in _READERS[path.suffix.lower()](path, columns):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, {location} must be an object with {', '.join(columns)}.")
        _check_columns(path, row, columns)
        empty = False
        yield location, [_value(path, location, column, row[column]) for column in columns]
    if empty:
        raise ValueError(f"{path} lists no images; add rows with {', '.join(columns)}.")


def is_manifest(path: Path) -> bool:
    """Whether a file name has the extension of a manifest."""
    return path.suffix.lower() in _READERS


def _read_csv(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    table = read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False).fillna("")
    rows = enumerate(table.to_dict("records"), 2)
    return ((f"line {line}", row) for line, row in rows if any(row.values()))


def _read_json(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    rows = _parsed(path, "the file", _text(path))
    if not isinstance(rows, list):
        raise ValueError(
            f'{path} must hold a list [{{"path": …, "label": …, "domain": …}}, …]; a file with an '
            "object per line is named .jsonl."
        )
    return ((f"item {number}", row) for number, row in enumerate(rows, 1))


def _read_json_lines(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if line.strip():
            yield f"line {number}", _parsed(path, f"line {number}", line)


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); save it as UTF-8.") from error


def _parsed(path: Path, location: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: {location} is not valid JSON: {error}.") from error


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    _check_columns(path, dict.fromkeys(column_names(path)), columns)
    rows = read_parquet(path, columns, ROW_BYTES).to_pylist()
    return ((f"row {number}", row) for number, row in enumerate(rows, 1))


_READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}


def _check_columns(path: Path, row: Mapping[str, Any], columns: Sequence[str]) -> None:
    for column in columns:
        if column not in row:
            others = [name for name in row if name not in columns]
            near = difflib.get_close_matches(column, others, n=1)
            cure = f"Rename {near[0]!r} to {column!r}." if near else f"Add {column!r}."
            raise ValueError(f"{path} has no column {column!r}; it has {listed(list(row))}. {cure}")


def _value(path: Path, location: str, column: str, value: Any) -> str:
    """A value as text; labels and domains may be whole numbers."""
    whole = isinstance(value, int) and not isinstance(value, bool) and column != "path"
    text = str(value).strip() if whole or isinstance(value, str) else ""
    if text:
        return text
    empty = value is None or isinstance(value, str)
    problem = "is empty" if empty else f"is {value!r}, not text"
    raise ValueError(f"{path}, {location}: the {column} {problem}. Give every image a {column}.")
