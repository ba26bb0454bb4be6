"""Read Parquet files within the limits on files of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from riskmatch.limits import COLUMNS, allowed, check_limit, check_memory


def parquet_file(path: Path, texts: Sequence[str] = ()) -> Any:
    """A ``pyarrow.parquet.ParquetFile``; its columns ``texts`` are read as dictionaries.

    Raises:
        ImportError: pyarrow is not installed.
        LimitError: the file has too many columns.
        ValueError: it is damaged.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow: pip install 'riskmatch[parquet]'"
        ) from error
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
