"""Read manifests: CSV, JSON or Parquet files that list images with labels and domains."""

from __future__ import annotations

import difflib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from riskmatch.data.images.index import Entry, ImageIndex, normalised_name
from riskmatch.data.labels import NUMBER, codes_of, label_columns, read_tags, warn_of_unlabelled
from riskmatch.data.table_files import SUFFIXES, column_names, read_csv, read_parquet
from riskmatch.files import read_file
from riskmatch.validation import listed

COLUMNS = ("path", "label", "domain")
ROW_BYTES = 400
"""Memory of a row of a Parquet file while it is read, besides its values."""
RELATIVE = "Paths must be absolute or relative to the folder of the manifest."

Row = tuple[str, Any]
"""Location of a row, such as "line 7", and its values by column."""


class Manifest(NamedTuple):
    """What a manifest lists."""

    entries: dict[Entry, str]
    """The images, existing or not, with the location of each row."""
    tags: tuple[str, ...] = ()
    """Names of the tags, where the labels are tags."""
    unlabelled: Mapping[str, int] = {}
    """Rows without a label that are left out, by domain."""


def index_manifest(
    path: Path,
    label: str | Sequence[str] | None = None,
    group: str | None = None,
    drop_missing_labels: bool = False,
) -> ImageIndex:
    """The images that a manifest lists.

    Args:
        path: a file ``.csv``, ``.tsv``, ``.json`` (a list of objects), ``.jsonl`` (an object per
            line) or ``.parquet`` with the columns path, label and domain. Image paths are absolute
            or relative to its folder. Labels that are all whole numbers are sorted as numbers;
            numbers with fractions are the targets of a regression. Blanks around a value are
            ignored.
        label: columns of the label in place of ``label``; see
            :func:`riskmatch.data.labels.read_tags` for tags.
        group: column of the group of each image.
        drop_missing_labels: leave out rows without a label, which are counted in a warning.

    Raises:
        FileNotFoundError: the manifest or an image that it lists does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    listed, tags, unlabelled = read_manifest(path, label, group, drop_missing_labels)
    warn_of_unlabelled(path, unlabelled)
    missing = [entry for entry in listed if not (path.parent / entry.path).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{path}, {listed[missing[0]]}: {path.parent / missing[0].path} does not exist "
            f"({len(missing):,} of {len(listed):,} files are missing). {RELATIVE}"
        )
    return index_entries(path, listed, tags)


def read_manifest(
    path: Path,
    label: str | Sequence[str] | None = None,
    group: str | None = None,
    drop_missing_labels: bool = False,
) -> Manifest:
    """The images that a manifest lists, existing or not, with the location of each row.

    Arguments are those of :func:`index_manifest`.

    Raises:
        FileNotFoundError: the manifest does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    known: Sequence[str] = ()
    if label is not None and path.suffix.lower() in SUFFIXES and path.exists():
        known = column_names(path)
    named = label_columns(label or "label", known)
    more = () if group is None else (group,)
    rows, unlabelled = list[Row](), Counter[str]()
    for location, row in _rows(path, ("path", *named, "domain", *more)):
        # A sample of several tags may lack all of them: they are masked.
        if drop_missing_labels and len(named) == 1 and _is_missing(row[named[0]]):
            unlabelled[_value(path, location, "domain", row["domain"])] += 1
        else:
            rows.append((location, row))
    if not rows:
        raise ValueError(f"{path} has no image with a label; choose another column.")
    labels, tags = _labels(path, named, rows)
    listed, first = dict[Entry, str](), dict[str, str]()
    for (location, row), value in zip(rows, labels, strict=True):
        image, domain = (_value(path, location, name, row[name]) for name in ("path", "domain"))
        if image in first:
            raise ValueError(f"{path} lists {image} twice, in {first[image]} and {location}.")
        own = "" if group is None else _value(path, location, group, row[group])
        first[image] = listed[Entry(image, value, domain, own)] = location
    return Manifest(listed, tags, unlabelled)


def _labels(
    path: Path, named: Sequence[str], rows: Sequence[Row]
) -> tuple[Iterable[str | float | tuple[float, ...]], tuple[str, ...]]:
    """The label of each row, and the names of the tags where there are any."""
    import pandas as pd

    columns = [pd.Series([row[name] for _, row in rows], name=name, dtype=object) for name in named]
    if (tags := read_tags(columns, lambda row: f"{path}, {rows[row][0]}")) is not None:
        return map(tuple, tags[1].tolist()), tags[0]
    (name,) = named
    cure = ", or leave it out: --drop-missing-labels"
    texts = [_value(path, location, name, row[name], cure) for location, row in rows]
    if all(map(NUMBER.fullmatch, texts)):
        numbers = [float(text) for text in texts]
        if any(number % 1 for number in numbers):
            return numbers, ()
    return texts, ()


def manifest_paths(path: Path) -> list[str]:
    """The image paths that a manifest lists, existing or not; it needs no labels or domains.

    Raises:
        FileNotFoundError: the manifest does not exist.
        ValueError: a row or column is invalid; the message names it.
    """
    rows = _rows(path, ("path",))
    return [_value(path, location, "path", row["path"]) for location, row in rows]


def column_texts(path: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of some columns of a manifest or a table, by row; missing values are empty.

    Raises:
        ValueError: there is no such column.
    """
    rows = []
    for _, row in _READERS[path.suffix.lower()](path, columns):
        _check_columns(path, row, columns)
        cells = (row[column] for column in columns)
        rows.append(tuple("" if cell is None else str(cell).strip() for cell in cells))
    return rows


def other_columns(path: Path) -> dict[str, dict[str, str]]:
    """The texts of the columns besides path, label and domain, by image path."""
    names = column_names(path) if path.suffix.lower() in SUFFIXES else None
    columns = (*COLUMNS, *(name for name in names or () if name not in COLUMNS))
    by_name: dict[str, dict[str, str]] = {}
    for _, row in _READERS[path.suffix.lower()](path, columns):
        for name, value in row.items():
            if name not in COLUMNS:
                by_name.setdefault(name, {})[str(row["path"]).strip()] = str(value).strip()
    return by_name


def listed_files(path: Path) -> list[Path]:
    """The image files that a manifest lists; none if the file is no manifest."""
    try:
        return [path.parent / name for name in manifest_paths(path)]
    except (OSError, ValueError):
        return []


def index_entries(path: Path, entries: Collection[Entry], tags: Sequence[str] = ()) -> ImageIndex:
    """The index of images that the manifest ``path`` lists, named after the file."""
    labels = {normalised_name(e.label) for e in entries if isinstance(e.label, str)}
    names, _ = codes_of(np.array(sorted(labels), dtype=object))
    return ImageIndex.of(path.stem, path.parent, entries, names or tags)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Location and values of each row, which has ``columns``."""
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
        yield location, row
    if empty:
        raise ValueError(f"{path} lists no images; add rows with {', '.join(columns)}.")


def is_manifest(path: Path) -> bool:
    """Whether a file name has the extension of a manifest."""
    return path.suffix.lower() in _READERS


def _read_csv(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    table = read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False).fillna("")
    line = 2
    for row in table.to_dict("records"):
        if any(row.values()):
            yield f"line {line}", row
        line += 1 + sum(text.count("\n") for text in row.values())  # line breaks in quotes


def _read_json(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    rows = _parsed(path, "the file", _text(path))
    if not isinstance(rows, list):
        raise ValueError(
            f'{path} must hold a list [{{"path": …}}, …]; with an object per line, name it .jsonl.'
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
            cure = f"Add {column!r}."
            if near:
                required = f"Rename {near[0]!r} to {column!r}."
                cure = required if column in COLUMNS else f"Did you mean {near[0]!r}?"
            raise ValueError(f"{path} has no column {column!r}; it has {listed(list(row))}. {cure}")


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _value(path: Path, location: str, column: str, value: Any, cure: str = "") -> str:
    """A value as text; labels and domains may be whole numbers, labels of a regression any."""
    number = isinstance(value, int) and not isinstance(value, bool) and column != "path"
    if isinstance(value, float) and column not in ("path", "domain"):
        number = math.isfinite(value)
        value = int(value) if number and value.is_integer() else value
    text = str(value).strip() if number or isinstance(value, str) else ""
    if text:
        return text
    empty = value is None or isinstance(value, str)
    problem = "is empty" if empty else f"is {value!r}, not text"
    raise ValueError(
        f"{path}, {location}: the {column} {problem}. Give every image a {column}{cure}."
    )
