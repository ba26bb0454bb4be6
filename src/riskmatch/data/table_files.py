"""Read CSV and Parquet files within the limits on files of others."""

from __future__ import annotations

import csv
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskmatch.files import check_regular
from riskmatch.limits import (
    COLUMNS,
    FIELD,
    allowed,
    check_fields,
    check_limit,
    check_memory,
    delimiter_of,
)
from riskmatch.validation import from_extra

if TYPE_CHECKING:
    from pandas import DataFrame

SUFFIXES = (".csv", ".tsv", ".parquet")
"""Extensions of the files that :func:`read_table` reads."""


def column_names(path: Path) -> list[str]:
    """Names of the columns of a file ``.csv``, ``.tsv`` or ``.parquet``; no row is read."""
    check_regular(path)
    if path.suffix.lower() == ".parquet":
        return list(parquet_file(path).schema_arrow.names)
    return _header(path)[0]


def read_table(path: Path) -> DataFrame:
    """Read a file ``.csv``, ``.tsv`` or ``.parquet``; a first column without a name is left out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or two columns have the same name.
        ImportError: pyarrow, which Parquet needs, is not installed.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no table {path}.")
    check_regular(path)
    if path.suffix.lower() == ".parquet":
        check_distinct(path, column_names(path))
        table = read_parquet(path)
        with parquet_errors(path):
            frame: DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
        return frame
    frame = read_csv(path)
    return frame if frame.columns[0] else frame.iloc[:, 1:]  # the index that pandas writes


def read_csv(path: Path, **options: Any) -> DataFrame:
    """Read a CSV file; blanks around names of columns are removed.

    Args:
        path: the file.
        options: further arguments of :func:`pandas.read_csv`.

    Raises:
        LimitError: a line, a field or the number of columns is too large.
        ValueError: the file is empty, damaged or not UTF-8, or two columns have the same name.
    """
    import pandas as pd

    check_regular(path)
    check_fields(path)
    # Before pandas 3.1 the default may miss the nearest number by the last bit.
    exact = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
    try:
        names, delimiter = _header(path)
        if not any(names):
            raise ValueError(f"{path} is empty; its first line must name the columns.")
        check_limit(f"{path} has", len(names), COLUMNS, "columns")
        check_distinct(path, names)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more values than columns
            frame: DataFrame = pd.read_csv(
                path,
                sep=delimiter,
                encoding="utf-8-sig",
                index_col=False,
                low_memory=False,
                skipinitialspace=True,
                float_precision=None if exact else "round_trip",
                **options,
            )
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); save it as UTF-8.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        cause = " ".join(str(error).split()).rstrip(".").rpartition("C error: ")[2]
        raise ValueError(f"{path} is not a valid CSV file: {cause}.") from error
    frame.columns = pd.Index(names)
    return frame


def check_distinct(table: object, names: Sequence[str]) -> None:
    """Raise ``ValueError`` if two columns have the same name."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{table} has the column {twice[0]!r} twice; rename or remove one.")


def _header(path: Path) -> tuple[list[str], str]:
    """Names of the columns, and the delimiter, from the first line."""
    with open(path, encoding="utf-8-sig") as file:
        line = file.readline(int(min(allowed(FIELD), sys.maxsize)))
    delimiter = delimiter_of(line)
    try:
        names = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error as error:
        raise ValueError(f"{path} is not a valid CSV file: {error} in its first line.") from error
    return [name.strip() for name in names], delimiter


def parquet_file(path: Path, texts: Sequence[str] = ()) -> Any:
    """A ``pyarrow.parquet.ParquetFile``; its columns ``texts`` are read as dictionaries.

    Raises:
        ImportError: pyarrow is not installed.
        LimitError: the file has too many columns.
        ValueError: it is damaged.
    """
    with from_extra("parquet", f"Reading {path}"):
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    most = int(min(allowed(COLUMNS), 2**31 - 2)) + 1  # the root of the schema is an entry, too
    try:
        with parquet_errors(path):
            return pyarrow.parquet.ParquetFile(
                path, read_dictionary=list(texts), thrift_container_size_limit=most
            )
    except ValueError as error:
        if "Exceeded size limit" in str(error):
            check_limit(f"{path} has at least", most, COLUMNS, "columns")
        raise


def read_parquet(path: Path, columns: Sequence[str] | None = None, row_bytes: int = 0) -> Any:
    """Read a Parquet file, or some columns of it, as a ``pyarrow.Table``.

    Args:
        path: the file.
        columns: names of columns that it has; by default all.
        row_bytes: memory that the caller takes for a row besides its values.

    Raises:
        LimitError: it would take too much memory.
        ValueError: it is damaged.
    """
    file = parquet_file(path)
    import pyarrow

    fields = [field for field in file.schema_arrow if columns is None or field.name in columns]
    parts = tuple(f"{field.name}." for field in fields)
    leaves = [k for k, leaf in enumerate(file.schema) if f"{leaf.path}.".startswith(parts)]
    groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
    rows = file.metadata.num_rows
    needed, note = row_bytes * rows, f" ({rows:,} rows)"
    needed += 8 * sum(group.column(leaf).num_values for group in groups for leaf in leaves)
    check_memory(path, needed, note)
    types = (pyarrow.string, pyarrow.large_string, pyarrow.binary, pyarrow.large_binary)
    texts = {
        field.name: field.type for field in fields if field.type in [type_() for type_ in types]
    }
    with parquet_errors(path):
        # As dictionaries, since a long text that all rows share takes little space in the file.
        table = parquet_file(path, list(texts)).read(columns)
        needed += sum(_text_bytes(table[name]) for name in texts)
        check_memory(path, needed, note)
        for name, type_ in texts.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, table[name].cast(type_))
    return table


def _text_bytes(column: Any) -> int:
    """Bytes of the texts of a column that was read as dictionaries."""
    import pyarrow.compute  # type: ignore[import-untyped]

    total = 0
    for chunk in column.chunks:
        lengths = pyarrow.compute.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
        rows = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
        total += int(np.bincount(rows, minlength=len(lengths)) @ np.nan_to_num(lengths))
    return total


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Turn errors of pyarrow into a ``ValueError`` that names the file."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # not about the content
            raise
        cause = " ".join(str(error).split())
        raise ValueError(f"{path} is damaged, or no Parquet file: {cause}") from error
