"""Preprocessing of tables: columns of any type to one tensor, fitted, stored as JSON, applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data.columns import InputColumn, read_frame, with_text_names
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from pandas import DataFrame

VERSION = 1
"""Version of the JSON."""
LIMIT = 10.0
"""Largest normalised number: outliers of a new domain are cut off there."""
MAX_CATEGORIES = 1000
"""Values of a column that have codes of their own; rarer ones count as unseen."""
UNSEEN, MISSING, FIRST = 0, 1, 2
"""Code of a value that training did not see, of a missing value, and of the first value."""
DAYS = (7.0, 365.2425)
"""Periods of a date, in days, whose phases are features beside the date and the hour."""
DATE_PARTS = 1 + 2 * (1 + len(DAYS))
"""Numbers that a date becomes: days since 1970, sine and cosine of day, week and year."""
BLOCK = 1 << 16
"""Rows that are prepared at a time."""
_NUMERIC = ("number", "date")
_STANDARDS = ("medians", "means", "scales")


class _Target(msgspec.Struct):
    """Mean and standard deviation of the targets of a regression."""

    mean: float
    scale: float


class TablePreprocessing(msgspec.Struct, eq=False):
    """Turns rows of a table into inputs of a network, as fitted on the training domains.

    Numbers and dates are imputed by the median and standardised; those that are constant in
    training are 0. Numbers that are missing in training have an indicator each. Categories and
    booleans become codes: 0 for a value that training did not see, 1 for a missing one.

    Shapes: table of n rows → (n, width); the codes of categories are the last columns.

    Example:
        >>> import pandas as pd
        >>> visits = pd.DataFrame({"age": [30, None, 50], "sex": ["f", "m", "f"]})
        >>> fitted = TablePreprocessing.fit(visits)
        >>> fitted.transform(visits)
        tensor([[-1.2247,  0.0000,  2.0000],
                [ 0.0000,  1.0000,  3.0000],
                [ 1.2247,  0.0000,  2.0000]])
        >>> again = TablePreprocessing.from_json(fitted.to_json())
        >>> again.transform(pd.DataFrame({"age": [40], "sex": ["x"]}))
        tensor([[0., 0., 0.]])
    """

    kind: ClassVar[str] = "table"

    columns: list[InputColumn]
    """The columns that are features, in order."""
    medians: list[float]
    """One of each number; a date is several numbers. So are the means and the scales."""
    means: list[float]
    scales: list[float]
    missing: list[int]
    """Numbers that are missing in training, by position."""
    categories: list[list[str]]
    """Values of each column of texts, sorted."""
    target: _Target | None = None

    def __post_init__(self) -> None:
        numbers = sum(_widths(self.columns))
        expected = dict.fromkeys(_STANDARDS, numbers)
        expected["categories"] = sum(column.type not in _NUMERIC for column in self.columns)
        for name, length in expected.items():
            if len(getattr(self, name)) != length:
                found = len(getattr(self, name))
                raise ValueError(f"its columns need {length} {name}, and there are {found}")
        if not self.columns or not {*self.missing} <= {*range(numbers)}:
            raise ValueError(f"it has no columns, or none with the numbers {self.missing}")
        if not np.isfinite([*self.medians, *self.means, *self.scales]).all():
            raise ValueError("a median, mean or scale is infinite or not a number")

    @classmethod
    def fit(
        cls,
        frame: DataFrame,
        columns: Sequence[InputColumn] | None = None,
        target: NDArray[Any] | None = None,
    ) -> TablePreprocessing:
        """Fit to the rows of the training domains.

        Args:
            frame: one row per sample; columns that are not in ``columns`` are ignored.
            columns: the features; by default all columns.
            target: (n,) targets of a regression, to be standardised.
        """
        frame = with_text_names(frame)
        if columns is None:
            columns = [InputColumn.of(frame[name]) for name in frame]
        return cls.fit_values(columns, read_frame(frame, columns), target)

    @classmethod
    def fit_values(
        cls,
        columns: Sequence[InputColumn],
        values: Sequence[NDArray[Any]],
        target: NDArray[Any] | None = None,
    ) -> TablePreprocessing:
        """Fit to columns that :meth:`InputColumn.read` read; see :meth:`fit`."""
        numbers, categories = _parts(columns, values)
        standards = None
        if target is not None:
            standards = _Target(float(target.mean()), float(target.std()) or 1.0)
        return cls(
            [*columns],
            **_standards(numbers),
            missing=[k for k in _firsts(columns) if np.isnan(numbers[:, k]).any()],
            categories=[_frequent(column) for column in categories],
            target=standards,
        )

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each category column, the last columns of the inputs."""
        return tuple(len(values) + FIRST for values in self.categories)

    @property
    def width(self) -> int:
        """Number of inputs."""
        return len(self.medians) + len(self.missing) + len(self.categories)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return (self.width,)

    def transform(self, frame: DataFrame) -> Tensor:
        """(n, width) inputs of a network; other columns of the table are ignored.

        Raises:
            ValueError: a column is missing or holds values of another type than in training, or
                the table has no rows.
        """
        return self.transform_values(read_frame(frame, self.columns))

    def transform_values(self, values: Sequence[NDArray[Any]]) -> Tensor:
        """Inputs from columns that :meth:`InputColumn.read` read; see :meth:`transform`."""
        rows = len(values[0])
        if not rows:
            raise ValueError("The table has no rows.")
        medians, means, scales = (np.array(getattr(self, name), np.float64) for name in _STANDARDS)
        scales = np.where(scales == 0, np.inf, scales)  # constants become 0 wherever they vary
        x = torch.empty(rows, self.width)
        for start in range(0, rows, BLOCK):
            block = slice(start, start + BLOCK)
            numbers, categories = _parts(self.columns, [column[block] for column in values])
            absent = np.isnan(numbers)
            scaled = ((np.where(absent, medians, numbers) - means) / scales).clip(-LIMIT, LIMIT)
            codes = (column[:, None] for column in map(_codes, categories, self.categories))
            parts = [scaled, absent[:, self.missing], *codes]
            x[block] = torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32))
        return x

    def unlike_training(self, values: Sequence[NDArray[Any]]) -> list[str]:
        """What columns that :meth:`InputColumn.read` read hold that training did not, a line each.

        Example:
            >>> import pandas as pd
            >>> fitted = TablePreprocessing.fit(pd.DataFrame({"age": [30, 50], "sex": ["f", "m"]}))
            >>> new = pd.DataFrame({"age": [40, 9000], "sex": ["x", None]})
            >>> for line in fitted.unlike_training(read_frame(new, fitted.columns)):
            ...     print(line)
            Column 'age' has values more than 10 standard deviations from the mean of training, \
which are cut off, in 1 of 2 rows, such as 9000.
            Column 'sex' has values that training did not see in 1 of 2 rows, such as x.
        """
        import pandas as pd

        places, categories, lines = iter(_firsts(self.columns)), iter(self.categories), []
        for column, array in zip(self.columns, values, strict=True):
            if column.type in _NUMERIC:
                place = next(places)
                mean, scale = self.means[place], self.scales[place]
                unlike = np.abs(array - mean) > LIMIT * scale
                what = f"values more than {LIMIT:g} standard deviations from the mean of training, "
                what += "which are cut off,"
                if not scale:
                    what = (
                        f"values other than {mean:g}, the only one of training, which are ignored,"
                    )
            else:
                unlike = _codes(array, next(categories)) == UNSEEN
                what = "values that training did not see"
            if pd.isna(array).all():
                lines.append(f"Column {column.name!r} is missing from all {len(array):,} rows.")
            elif unlike.any():
                example = array[unlike][0] if column.type != "number" else f"{array[unlike][0]:g}"
                count = f"{unlike.sum():,} of {len(array):,} rows"
                lines.append(f"Column {column.name!r} has {what} in {count}, such as {example}.")
        return lines

    def scale_target(self, y: Tensor) -> Tensor:
        """Targets of a regression, standardised on the training domains."""
        assert self.target is not None
        return ((y.double() - self.target.mean) / self.target.scale).float()

    def restore_target(self, outputs: Tensor) -> Tensor:
        """Outputs of a network for a regression, in the unit of the table's label."""
        return outputs if self.target is None else outputs * self.target.scale + self.target.mean

    def to_json(self) -> dict[str, Any]:
        """All fitted values as plain JSON values."""
        return {"kind": self.kind, "version": VERSION, **msgspec.to_builtins(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TablePreprocessing:
        """Preprocessing from the values of :meth:`to_json`; it computes the same numbers.

        Raises:
            ValueError: the values are damaged, or of another kind or version.
        """
        check_option("kind of preprocessing", values.get("kind"), (cls.kind,))
        if values.get("version") != VERSION:
            raise ValueError(
                f"The preprocessing has version {values.get('version')!r}, and this riskmatch "
                f"reads {VERSION}. Install the riskmatch that wrote it, or train again."
            )
        try:
            return msgspec.convert(values, cls)
        except ValueError as error:
            raise ValueError(f"The preprocessing is damaged: {error}. Restore it.") from error


def _parts(
    columns: Sequence[InputColumn], values: Sequence[NDArray[Any]]
) -> tuple[NDArray[np.float64], list[NDArray[Any]]]:
    """Numbers (n, p), dates as several, and the columns (n,) of texts."""
    numbers, categories = list[NDArray[Any]](), list[NDArray[Any]]()
    for column, array in zip(columns, values, strict=True):
        if column.type == "number":
            numbers.append(array)
        elif column.type == "date":
            numbers += [array, *_phases(array)]
        else:
            categories.append(array)
    rows = len(values[0])
    return np.stack(numbers, 1) if numbers else np.empty((rows, 0)), categories


def _firsts(columns: Sequence[InputColumn]) -> list[int]:
    """Positions of the columns of numbers and dates among the numbers."""
    widths = _widths(columns)
    return [sum(widths[:k]) for k in range(len(widths))]


def _widths(columns: Sequence[InputColumn]) -> list[int]:
    """How many numbers each column of numbers or dates becomes."""
    return [DATE_PARTS if c.type == "date" else 1 for c in columns if c.type in _NUMERIC]


def _phases(days: NDArray[Any]) -> list[NDArray[Any]]:
    """Sine and cosine of the time of day, of the day of the week and of the day of the year."""
    phases = [days % 1.0, *(np.floor(days) % period / period for period in DAYS)]
    return [wave(2 * np.pi * phase) for phase in phases for wave in (np.sin, np.cos)]


def _standards(numbers: NDArray[np.float64]) -> dict[str, list[float]]:
    """Median, mean and standard deviation of each column; 0 for the deviation of a constant."""
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

    if not numbers.shape[1]:
        return {name: [] for name in _STANDARDS}
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    # By columns: NumPy then sums in pairs, which is more exact than one after the other.
    scaler = StandardScaler().fit(np.asfortranarray(imputer.fit_transform(numbers)))
    constant = ~np.isclose(np.sqrt(scaler.var_), scaler.scale_)  # its scale is 1, not 0
    arrays = (imputer.statistics_, scaler.mean_, np.where(constant, 0.0, scaler.scale_))
    return {name: array.tolist() for name, array in zip(_STANDARDS, arrays, strict=True)}


def _codes(texts: NDArray[Any], known: Sequence[str]) -> NDArray[np.int64]:
    """(n,) codes of texts."""
    import pandas as pd

    places = pd.Index(np.array(known, dtype=object)).get_indexer(pd.Index(texts))
    codes = np.where(places < 0, UNSEEN, places + FIRST)
    return np.where(pd.isna(texts), MISSING, codes)


def _frequent(column: NDArray[Any]) -> list[str]:
    """The most frequent texts of a column, sorted."""
    import pandas as pd

    counts = pd.Series(column, dtype=object).value_counts()
    order = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return sorted(str(value) for value, _ in order[:MAX_CATEGORIES])
