"""Preprocessing of tables: formulas, the way through JSON, and values that do not fit."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from riskmatch.data import TablePreprocessing
from riskmatch.data.columns import InputColumn
from riskmatch.data.preprocessing import LIMIT, MAX_CATEGORIES

VISITS = pd.DataFrame(
    {
        "age": [30.0, None, 50.0, 70.0],
        "visits": [1, 2, 3, 6],
        "carrier": ["AA", "UA", None, "AA"],
        "weekend": [True, False, None, True],
        "day": ["2024-01-01", "2024-01-08T06:00", None, "2024-07-01"],
    }
)


def test_rows_in_blocks_are_prepared_like_all_at_once(monkeypatch):
    fitted = TablePreprocessing.fit(VISITS)
    whole = fitted.transform(VISITS)
    monkeypatch.setattr("riskmatch.data.preprocessing.BLOCK", 3)
    assert torch.equal(fitted.transform(VISITS), whole)


def test_types_are_inferred():
    types = {
        "number": [[1, 2], [0.5, None], pd.array([1, None], dtype="Int64")],
        "category": [["a", None], pd.Categorical([1, 2]), ["a", 1], ["2024", "2025"]],
        "boolean": [[True, False], [True, None], pd.array([True, None], dtype="boolean")],
        "date": [
            ["2024-01-01", None],
            pd.to_datetime(["2024-01-01", None]),
            pd.to_datetime(["2024-01-01", "2024-01-02"], utc=True),
            [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
            ["2024-01-01T12:00:00+02:00", "2024-01-02T12:00:00+03:00"],
        ],
    }
    for type_, examples in types.items():
        for values in examples:
            assert InputColumn.of(pd.Series(values, name="x")).type == type_, values


def test_numbers_dates_and_codes_are_what_their_formulas_give():
    x = TablePreprocessing.fit(VISITS).transform(VISITS).double().numpy()
    age, visits = np.array([30, 50, 50, 70.0]), np.array([1, 2, 3, 6.0])  # the median for None
    days = np.array([19723, 19730.25, np.nan, 19905])
    parts = [days]
    for angle in (days % 1, np.floor(days) % 7 / 7, np.floor(days) % 365.2425 / 365.2425):
        parts += [np.sin(2 * np.pi * angle), np.cos(2 * np.pi * angle)]
    numbers = [age, visits]
    for part in parts:
        part[2] = np.nanmedian(part)
        numbers.append(part)
    scale = [n.std() if n.std() > 1e-9 else 1 for n in numbers]
    expected = np.stack([(n - n.mean()) / s for n, s in zip(numbers, scale, strict=True)], 1)
    assert np.allclose(x[:, :9], expected, atol=1e-5)
    assert x[:, 9:].tolist() == [  # missing age, missing day, carrier, weekend
        [0, 0, 2, 3],
        [1, 0, 3, 2],
        [0, 1, 1, 1],
        [0, 0, 2, 3],
    ]


def test_new_rows_have_codes_for_unseen_and_missing_values_and_no_outliers():
    fitted = TablePreprocessing.fit(VISITS[["visits", "carrier"]])
    new = pd.DataFrame({"carrier": ["DL", "UA", ""], "other": 0, "visits": ["2", "1e9", None]})
    assert fitted.transform(new)[:, 1].tolist() == [0, 3, 1]
    assert fitted.transform(new)[1, 0] == LIMIT
    assert fitted.cardinalities == (4,)
    assert fitted.width == 2


def test_numbers_that_training_cannot_learn_from_are_zero():
    seen = pd.DataFrame({"constant": [3.0, 3.0], "missing": [np.nan, np.nan], "x": [0.0, 2.0]})
    columns = [InputColumn(name, "number") for name in seen]
    x = TablePreprocessing.fit(seen, columns).transform(seen.assign(constant=9.0, missing=7.0))
    assert x.tolist() == [[0, 0, -1, 0], [0, 0, 1, 0]]


def test_rare_values_of_a_column_with_many_count_as_unseen():
    often, rare = [f"v{k}" for k in range(MAX_CATEGORIES)], ["rare"]
    fitted = TablePreprocessing.fit(pd.DataFrame({"id": [*often, *often, *rare]}))
    assert fitted.cardinalities == (MAX_CATEGORIES + 2,)
    assert fitted.transform(pd.DataFrame({"id": ["rare", "v0"]}))[:, 0].tolist() == [0, 2]


CELLS = {
    "number": st.none() | st.floats(-1e9, 1e9),
    "text": st.none() | st.text(max_size=3),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8)
FIRST = {"number": 1.0, "text": "a", "flag": True, "day": datetime.date(2020, 1, 1)}


@settings(max_examples=15, deadline=None)
@given(ROWS, ROWS)
def test_json_restores_the_same_numbers(seen, new):
    fitted = TablePreprocessing.fit(pd.DataFrame([FIRST, *seen]))
    again = TablePreprocessing.from_json(json.loads(json.dumps(fitted.to_json(), allow_nan=False)))
    x = fitted.transform(pd.DataFrame([FIRST, *new]))
    assert torch.equal(x, again.transform(pd.DataFrame([FIRST, *new])))
    assert torch.isfinite(x).all()
    assert x.shape[1] == fitted.width
    codes = x[:, -2:]
    assert ((codes >= 0) & (codes < torch.tensor(fitted.cardinalities))).all()


def test_target_is_standardised_and_restored():
    y = torch.tensor([1.0, 3.0, 8.0])
    fitted = TablePreprocessing.fit(VISITS[:3], target=y.numpy())
    scaled = fitted.scale_target(y)
    assert torch.allclose(scaled, (y - y.mean()) / y.std(correction=0))
    again = TablePreprocessing.from_json(fitted.to_json())
    assert torch.allclose(again.restore_target(scaled), y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"age": ["1", "abc", "2", "3"]},
            "'age' held numbers in training, now text 'abc' in row 2",
        ),
        ({"age": [1, np.inf, 2, 3]}, "'age' has infinite values, the first in row 2"),
        ({"age": pd.to_datetime(["2024-01-01"] * 4)}, "'age' held numbers .* row 1"),
        ({"day": ["2024-01-01", "soon", None, None]}, "'day' held dates .* 'soon' in row 2"),
        ({"day": [1, 2, 3, 4]}, "'day' held dates in training, now 1 in row 1"),
        ({"weekend": ["yes", True, None, 0]}, "'weekend' held true and false .* 'yes' in row 1"),
        ({"carrier": [["AA"], ["UA"], ["AA"], ["AA"]]}, "'carrier' must hold text"),
    ],
)
def test_values_of_another_type_are_named_with_their_row(changes, message):
    fitted = TablePreprocessing.fit(VISITS)
    with pytest.raises(ValueError, match=message) as caught:
        fitted.transform(VISITS.assign(**changes))
    assert "\n" not in str(caught.value)


def test_missing_columns_and_empty_tables_are_refused():
    fitted = TablePreprocessing.fit(VISITS)
    with pytest.raises(ValueError, match=r"Column 'age' is missing.*Did you mean 'ages'"):
        fitted.transform(VISITS.rename(columns={"age": "ages"}))
    with pytest.raises(ValueError, match="no rows"):
        fitted.transform(VISITS[:0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "image"}, "Unknown kind of preprocessing 'image'.*'table'"),
        ({"version": 99}, "version 99, and this riskmatch reads 1"),
        ({"means": [0.0]}, "damaged.*need 9 means, and there are 1"),
        ({"columns": [{"name": "age", "type": "text"}]}, "damaged.*'text'"),
        ({"categories": None}, "damaged"),
    ],
)
def test_damaged_json_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TablePreprocessing.from_json({**TablePreprocessing.fit(VISITS).to_json(), **changes})
