"""Columns of a table: types, and values of any type read as numbers or texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.images.index import normalised_name
from riskmatch.validation import valid_spellings

if TYPE_CHECKING:
    from pandas import DataFrame, Series

ColumnType = Literal["number", "category", "boolean", "date"]
LARGEST = float(np.finfo(np.float32).max)
"""Largest number that networks, which compute in single precision, can take."""
_BOOLEANS = {"true": "True", "1": "True", "false": "False", "0": "False"}
_TYPES: dict[str, ColumnType] = {
    "boolean": "boolean",
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime64", "datetime", "date"), "date"),
    **dict.fromkeys(("string", "mixed-integer", "categorical"), "category"),
}
"""Type of a column by pandas' inferred type of its values."""


@dataclass(frozen=True)
class InputColumn:
    """A column of a table that is a feature."""

    name: str
    type: ColumnType

    @classmethod
    def of(cls, values: Series[Any]) -> InputColumn:
        """Infer the type; text that is ISO 8601 throughout is a date.

        Raises:
            ValueError: the column holds no values, or values of another type.

        Example:
            >>> import pandas as pd
            >>> InputColumn.of(pd.Series(["2024-01-31", None], name="visit"))
            InputColumn(name='visit', type='date')
        """
        import pandas as pd

        name, dtype, present = str(values.name), values.dtype, values.dropna()
        if present.empty:
            raise ValueError(f"Column {name!r} has no values. {_leave_out(name)}")
        if isinstance(dtype, pd.CategoricalDtype):
            return cls(name, "category")
        inferred = pd.api.types.infer_dtype(present, skipna=True)
        if inferred == "string" and _is_date(present):
            return cls(name, "date")
        if inferred == "mixed" and all(isinstance(value, str | Real) for value in present):
            return cls(name, "category")  # as in a CSV file
        if inferred in _TYPES:
            return cls(name, _TYPES[inferred])
        raise ValueError(
            f"Column {name!r} holds {inferred}; use numbers, texts or dates. {_leave_out(name)}"
        )

    def read(self, values: Series[Any]) -> NDArray[Any]:
        """(n,) floats, dates as days since 1970, or texts as objects; missing values are NaN.

        Raises:
            ValueError: a value does not have the type of the column; the message names its row.
        """
        if self.type == "number":
            return self._numbers(values)
        if self.type == "date":
            return self._days(values)
        texts = read_texts(values)
        if self.type == "category":
            return texts
        read = [_BOOLEANS.get(text.lower()) if isinstance(text, str) else text for text in texts]
        self._check(values, np.array([value is not None for value in read]), "true and false")
        return np.array(read, dtype=object)

    def _numbers(self, values: Series[Any]) -> NDArray[Any]:
        import pandas as pd

        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            self._check(values, np.zeros(len(values), bool), "numbers")
        numeric = pd.api.types.is_numeric_dtype(values.dtype)
        numbers = values if numeric else pd.to_numeric(values.astype(object), errors="coerce")
        read = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        self._check(values, ~np.isnan(read) | values.isna().to_numpy(), "numbers")
        if (large := np.abs(read) > LARGEST).any():
            row = int(large.argmax())
            size = "infinite values" if np.isinf(read[row]) else f"values beyond ±{LARGEST:.1e}"
            raise ValueError(
                f"Column {self.name!r} has {size}, the first in row {row + 1}; "
                f"correct, replace or rescale them. {_leave_out(self.name)}"
            )
        return read

    def _days(self, values: Series[Any]) -> NDArray[Any]:
        import pandas as pd

        if pd.api.types.is_numeric_dtype(values.dtype) and not values.isna().all():
            self._check(values, values.isna().to_numpy(), "dates")
        times = _times(values)
        self._check(values, (times.notna() | values.isna()).to_numpy(), "dates")
        days = (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
        return days.to_numpy(dtype=np.float64)

    def _check(self, values: Series[Any], valid: NDArray[np.bool_], expected: str) -> None:
        """Raise unless every value is valid."""
        if valid.all():
            return
        row = int(valid.argmin())
        value = values.iloc[row]
        shown = f"text {value[:100]!r}" if isinstance(value, str) else str(value)
        now = f"now {shown} in row {row + 1}. Correct it."
        raise ValueError(f"Column {self.name!r} held {expected} in training, {now}")


def read_texts(values: Series[Any]) -> NDArray[Any]:
    """(n,) values as texts without blanks around them, NaN where missing.

    Whole floats lose their fraction.

    Example:
        >>> import pandas as pd
        >>> read_texts(pd.Series([7.0, None, "7"]))
        array(['7', nan, '7'], dtype=object)
    """
    import pandas as pd

    try:
        codes, distinct = pd.factorize(values.astype(object), use_na_sentinel=True)
    except TypeError as error:  # lists and the like
        raise ValueError(f"Column {str(values.name)!r} must hold text ({error}).") from error
    texts: NDArray[Any] = np.array([*map(_text, distinct), np.nan], dtype=object)
    return texts[codes]  # −1, the last, where it is missing


def with_text_names(frame: DataFrame) -> DataFrame:
    """A data frame with the names of its columns as text.

    Raises:
        ValueError: the columns have several levels of names.
    """
    if frame.columns.nlevels > 1:
        raise ValueError(
            f"The columns of the data frame have {frame.columns.nlevels} levels of names, a "
            "MultiIndex: frame.columns = ['_'.join(map(str, names)) for names in frame.columns]."
        )
    return frame.rename(columns=str)


def read_frame(frame: DataFrame, columns: Sequence[InputColumn]) -> list[NDArray[Any]]:
    """The values of ``columns`` of a data frame, in order; see :meth:`InputColumn.read`.

    Raises:
        ValueError: a column is missing, or holds values of another type.
    """
    frame = with_text_names(frame)
    places = {name: k for k, name in reversed([*enumerate(frame.columns)])}
    read = []
    for column in columns:
        if column.name not in places:
            hint = valid_spellings(column.name, [*reversed(places)])
            raise ValueError(
                f"Column {column.name!r} is missing, which the model was trained on.{hint}"
            )
        read.append(column.read(frame.iloc[:, places[column.name]]))
    return read


def _is_date(texts: Series[Any]) -> bool:
    if not re.match(r"\s*\d{4}-\d\d(-\d\d|$)", str(texts.iloc[0])):
        return False
    return bool(_times(texts).notna().all())


def _times(values: Series[Any]) -> Series[Any]:
    """Values as times in UTC; NaT where they are no dates."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        values = values.astype(object).where(values.notna(), None)
        values = values.map(lambda value: None if value is None else str(value).strip())
        return pd.to_datetime(values, format="ISO8601", errors="coerce", utc=True)
    return pd.to_datetime(values, utc=True)


def _text(value: Any) -> Any:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return normalised_name(str(int(value) if whole else value).strip()) or np.nan


def _leave_out(name: str) -> str:
    return f"To leave it out: --ignore {name!r} (ignore=[{name!r}] in Python)."
