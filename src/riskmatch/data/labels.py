"""Read labels of tables and of lists of images, classes, numbers or tags, and describe them."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.columns import read_texts
from riskmatch.validation import shortened

if TYPE_CHECKING:
    from pandas import Series

Place = Callable[[int], str]
"""The place of a row in its file, such as "row 3"."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TAG = {"1": 1.0, "1.0": 1.0, "true": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0}
_SEPARATOR = re.compile(r"[|;]")


def label_columns(label: str | Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of a label: one that there is, or several with commas between them.

    Example:
        >>> label_columns("a,b", ["path", "a", "b"]), label_columns("a,b", ["a,b"])
        (('a', 'b'), ('a,b',))
    """
    names = [label] if isinstance(label, str) else label
    parts = [[name] if name in columns else name.split(",") for name in names]
    return tuple(dict.fromkeys(name.strip() for part in parts for name in part))


def warn_of_unlabelled(source: object, counts: Mapping[str, int]) -> None:
    """Warn of rows without a label that are left out, of which there are so many by domain."""
    if number := sum(counts.values()):
        by_domain = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        message = f"{number:,} rows of {source} without a label are left out: {by_domain}"
        warnings.warn(shortened(message), stacklevel=3)


def read_tags(
    columns: Sequence[Series[Any]], place: Place, *, known: bool = False
) -> tuple[tuple[str, ...], NDArray[np.float32]] | None:
    """Names of the tags, and which of them each row has.

    Args:
        columns: a column of 0 and 1, or true and false, for each tag; or one column of lists, of
            JSON lists, or of texts with ``|`` or ``;`` between the tags, of which one recurs in
            another text. An empty value is missing: the row may have the tag or not. A row without
            tags has the list ``[]``.
        place: place of a row in the file, for errors.
        known: the labels are known to be tags, whether or not one recurs.

    Returns:
        Names (k,) and tags (n, k), NaN where missing; None for one column without lists.

    Raises:
        ValueError: a value is none of these; the message names the row and the column.

    Example:
        >>> import pandas as pd
        >>> names, tags = read_tags([pd.Series(["hat|beard", "[]", None, "hat"])], str)
        >>> names, tags.T.tolist()
        (('beard', 'hat'), [[1.0, 0.0, nan, 0.0], [1.0, 0.0, nan, 1.0]])
    """
    import pandas as pd

    if len(columns) > 1:
        tags = np.stack([_binary(column, place) for column in columns], 1)
        return tuple(str(column.name) for column in columns), tags
    (column,) = columns
    if not _has_lists(column, known):
        return None
    lists = [_tags(value, place, row, column) for row, value in enumerate(column.to_list())]
    rows = np.repeat(np.arange(len(lists)), [len(tags or ()) for tags in lists])
    named = pd.Series([tag for tags in lists for tag in tags or ()], dtype=object)
    names, codes = codes_of(read_texts(named))
    if np.isnan(codes).any():
        row = int(rows[np.isnan(codes).argmax()])
        raise ValueError(f"{_cell(column, place, row)} has an empty tag. Remove it.")
    if not names:
        raise ValueError(f"Column {str(column.name)!r} has no tags; choose another label.")
    y = np.zeros((len(lists), len(names)), np.float32)
    y[rows, codes.astype(np.int64)] = 1
    y[[tags is None for tags in lists]] = np.nan
    return names, y


def codes_of(texts: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Distinct texts, whole numbers sorted as such, and the number of each; NaN where missing."""
    import pandas as pd

    codes, distinct = pd.factorize(texts)
    whole = all(re.fullmatch(r"[+-]?\d+", text) for text in distinct)
    order = sorted(range(len(distinct)), key=lambda k: int(distinct[k]) if whole else distinct[k])
    rank = np.full(len(distinct) + 1, np.nan)
    rank[order] = np.arange(len(order))
    return tuple(str(distinct[k]) for k in order), rank[codes]


def summary(
    names: Sequence[str], labels: Mapping[str, NDArray[Any]]
) -> dict[str, dict[str, float]]:
    """By domain the share of its known labels (n, k) that have each tag, NaN where none is known.

    Of numbers (n,) the ``mean`` and the ``spread``, their standard deviation; of classes nothing.

    Example:
        >>> summary(("hat",), {"a": np.array([[1.0], [0.0], [np.nan]])})
        {'a': {'hat': 0.5}}
        >>> summary((), {"a": np.array([1.0, 3.0])})
        {'a': {'mean': 2.0, 'spread': 1.0}}
    """
    described = dict[str, dict[str, float]]()
    for domain, y in labels.items():
        if y.ndim == 2 and len(y):
            known = ~np.isnan(y)
            with np.errstate(invalid="ignore"):
                shares = np.nansum(y, 0) / known.sum(0)
            described[domain] = dict(zip(names, map(float, shares), strict=True))
        elif y.ndim == 1 and np.issubdtype(y.dtype, np.floating) and len(y):
            described[domain] = {"mean": float(y.mean()), "spread": float(y.std())}
    return described


def _binary(column: Series[Any], place: Place) -> NDArray[np.float32]:
    texts = read_texts(column)
    tags = [_TAG.get(text.lower()) if isinstance(text, str) else np.nan for text in texts]
    if None in tags:
        row = tags.index(None)
        raise ValueError(
            f"{_cell(column, place, row)} is {texts[row]!r}; a tag is 0, 1, true, false or empty. "
            "Correct it, or leave the column out of the label."
        )
    return np.array(tags, np.float32)


def _has_lists(column: Series[Any], known: bool) -> bool:
    from pandas.api.types import is_object_dtype, is_string_dtype

    if not (is_object_dtype(column.dtype) or is_string_dtype(column.dtype)):
        return False
    values = column.to_list()
    texts = {value.strip() for value in values if isinstance(value, str)}
    if any(isinstance(value, list | tuple | np.ndarray) for value in values):
        return True
    # A class may have a separator in its name; tags recur in other combinations.
    parts = [part.strip() for text in texts for part in _SEPARATOR.split(text) if part.strip()]
    separated = len(parts) > len(texts) if known else len(parts) > len(set(parts))
    return separated or any(map(_is_json, texts))


def _is_json(text: str) -> bool:
    return text.strip().startswith("[") and text.strip().endswith("]")


def _tags(value: Any, place: Place, row: int, column: Series[Any]) -> list[Any] | None:
    """The tags of a row; None where they are missing."""
    if isinstance(value, list | tuple | np.ndarray):
        return list(value)
    if value is None or value != value or not str(value).strip():
        return None
    text = str(value)
    if not _is_json(text):
        return [part for part in _SEPARATOR.split(text) if part.strip()]
    try:
        tags = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{_cell(column, place, row)} is no JSON list: {error}.") from error
    if any(isinstance(tag, list | dict) for tag in tags):
        raise ValueError(f"{_cell(column, place, row)} has lists in a list. Write texts.")
    return list(tags)


def _cell(column: Series[Any], place: Place, row: int) -> str:
    return f"Column {str(column.name)!r} in {place(row)}"
