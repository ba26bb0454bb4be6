"""Read CSV files with any usual delimiter, within the limits on sizes."""

from __future__ import annotations

import csv
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.files import check_regular
from riskmatch.limits import COLUMNS, FIELD, allowed, check_fields, check_limit, delimiter_of

if TYPE_CHECKING:
    from pandas import DataFrame


def csv_columns(path: Path) -> list[str]:
    """Names of the columns, from the first line of a CSV file."""
    return _header(path)[0]


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
