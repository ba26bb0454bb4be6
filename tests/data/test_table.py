"""Tables in files: which files are tables, what they hold, and what cannot be used."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch

from riskmatch.data import load, load_data
from riskmatch.data.catalogue import resolve
from riskmatch.engine.data_identity import identity_of

COLUMNS = {"label": "late", "domain": "airport"}


def visits(n=60, seed=0, **changes):
    random = np.random.default_rng(seed)
    columns = {
        "distance": random.normal(1000, 300, n),
        "carrier": random.choice(["AA", "UA", None], n),
        "weekend": random.random(n) < 0.3,
        "airport": np.array(["JFK", "LGA", "EWR"])[np.arange(n) % 3],
        "late": np.where(random.random(n) < 0.4, "yes", "no"),
    }
    return pd.DataFrame({**columns, **changes})


def write(path, frame):
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return str(path)


def test_files_and_data_frames_hold_the_same_table(tmp_path):
    frame = visits()
    made = [load_data(frame, **COLUMNS)]
    for name in ("visits.csv", "visits.parquet"):
        path = write(tmp_path / name, frame)
        assert resolve(path).contents == "table"
        made += [load(path, COLUMNS), load_data(path, **COLUMNS)]
    frame.to_csv(tmp_path / "semicolons.csv", sep=";", encoding="utf-8-sig")  # with its index
    made.append(load(str(tmp_path / "semicolons.csv"), COLUMNS))
    for data in made:
        assert data.names == ("EWR", "JFK", "LGA")
        assert data.class_names == ("no", "yes")
        assert [column.name for column in data.columns] == ["distance", "carrier", "weekend"]
        assert data.rows["LGA"].tolist() == list(range(2, 61, 3))
        assert identity_of(data) == identity_of(made[0])
    assert load_data(frame, **COLUMNS, ignore=["weekend"]).input_shape == (2,)


@pytest.mark.parametrize("ignore", ["weekend,carrier", ["weekend,carrier"], ["weekend", "carrier"]])
def test_columns_to_ignore_are_split_at_commas_unless_one_has_that_name(ignore):
    assert load_data(visits(), **COLUMNS, ignore=ignore).input_shape == (1,)
    named = visits(**{"weekend,carrier": range(60)})
    data = load_data(named, **COLUMNS, ignore=ignore)
    assert data.input_shape == ((3,) if ignore != ["weekend", "carrier"] else (2,))


def test_rows_without_a_label_are_left_out_and_counted(tmp_path):
    frame = visits()
    frame.loc[[0, 3, 4], "late"] = None
    path = write(tmp_path / "visits.csv", frame)
    with pytest.raises(ValueError, match=r"3 missing values, .*row 1,.*--drop-missing-labels"):
        load(path, COLUMNS)
    with pytest.warns(UserWarning, match=r"3 rows .* JFK 2, LGA 1"):
        data = load(path, {**COLUMNS, "drop_missing_labels": True})
    assert [len(domain) for domain in data.domains] == [20, 18, 19]
    assert data.rows["JFK"].tolist() == list(range(7, 61, 3))
    kept = frame.dropna(subset=["late"])
    assert identity_of(data).content == identity_of(load_data(kept, **COLUMNS)).content


def test_all_line_ends_give_the_same_table(tmp_path):
    frame, made = visits(), []
    for number, end in enumerate(("\n", "\r\n", "\r")):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(frame.to_csv(index=False, lineterminator=end).encode())
        made.append(identity_of(load(str(path), COLUMNS)))
    assert made[0] == made[1] == made[2]


def test_names_of_several_levels_are_refused_with_the_cure():
    frame = visits()
    frame.columns = pd.MultiIndex.from_product([["visit"], frame.columns])
    with pytest.raises(ValueError, match=r"2 levels.*MultiIndex.*'_'.join"):
        load_data(frame, **COLUMNS)
    with pytest.raises(ValueError, match=r"'late' is in the index.*reset_index"):
        load_data(visits().set_index(["late", "carrier"]), **COLUMNS)


def test_identity_covers_values_texts_and_names_of_columns():
    identity = identity_of(load_data(visits(), **COLUMNS)).content
    renamed = visits().rename(columns={"distance": "miles"})
    retold = visits().replace({"carrier": {"AA": "AB"}})
    moved = visits()
    moved.loc[7, "distance"] += 1e-9
    for frame in (renamed, retold, moved):
        assert identity_of(load_data(frame, **COLUMNS)).content != identity


def test_preprocessing_sees_the_training_domains_alone():
    frame = visits()
    changed = frame.copy()
    test = changed["airport"] == "JFK"
    changed.loc[test, "distance"] *= 100
    changed.loc[test, "carrier"] = "ZZ"
    one, other = (load_data(table, **COLUMNS).fitted(["JFK"]) for table in (frame, changed))
    assert one.preprocessing.to_json() == other.preprocessing.to_json()
    for k in (0, 2):  # EWR and LGA
        assert torch.equal(one.domains[k].x, other.domains[k].x)
    assert (other.domains[1].x[:, -2] == 0).all()  # a carrier that training has not seen
    pooled = torch.cat([one.domains[k].x[:, 0] for k in (0, 2)])
    assert abs(pooled.mean()) < 1e-5
    assert abs(pooled.std(correction=0) - 1) < 1e-5
    rows = frame.iloc[one.domains[0].x.shape[0] :: 3]
    assert one.preprocessing.transform(rows).shape == (len(rows), one.input_shape[0])
    assert torch.equal(
        one.preprocessing.transform(frame[frame["airport"] == "EWR"]), one.domains[0].x
    )


def test_integer_labels_are_targets_of_a_regression():
    delay = np.arange(60) % 7 - 2
    raw = load_data(visits(late=delay), **COLUMNS)
    assert raw.class_names == ("-2", "-1", "0", "1", "2", "3", "4")
    fitted = raw.fitted(["JFK"], labels="numbers")
    assert fitted.classes == 0
    restored = fitted.preprocessing.restore_target(fitted.domains[1].y)
    assert torch.allclose(restored, torch.tensor(delay[::3]).float(), atol=1e-5)
    with pytest.raises(ValueError, match="label of numbers, and 'late' holds 'yes'"):
        load_data(visits(), **COLUMNS).fitted(["JFK"], labels="numbers")
    with pytest.raises(ValueError, match=r"60 different values in 60 rows.*regression"):
        load_data(visits(late=np.arange(60)), **COLUMNS).fitted(["JFK"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b,a\n1,2,3", "has the column 'a' twice"),
        (b"late,airport,x\n", "0 rows"),
        (b"late,airport,x\n1,A,2,9\n0,B,2,9", "not a valid CSV"),
        (b"late,airport," + b"x" * 200_000 + b"\n1,A,2\n0,B,2", "not a valid CSV"),
        (b"late,airport,x\n1,A,2\n0,B,2,9", "not a valid CSV"),
        (b"late,airport,x\n1,A,2\n,B,2", "'late' has 1 missing values, the first in row 2"),
        (b"late,airport,x\n1,A,2\n0,,2", "'airport' has 1 missing values, the first in row 2"),
        (b"late,airport,x\n1,A,inf\n0,B,2", "'x' has infinite values, the first in row 1"),
        (b"late,airport,x\n1,A,2\n0,A,2", "names one domain only, 'A'"),
        (b"late,airpot,x\n1,A,2", "'airport'. Did you mean 'airpot'"),
        (b"late,airport,\xff\n1,A,2", "not UTF-8|no column 'path'"),
    ],
)
def test_unusable_files_are_one_clear_line(tmp_path, content, message):
    path = tmp_path / "visits.csv"
    path.write_bytes(content)
    data = resolve(str(path))
    options = COLUMNS if data.contents == "table" else {}
    with pytest.raises(ValueError, match=message) as caught:
        data.load(options)
    assert "\n" not in str(caught.value)


def test_columns_are_described():
    day = pd.date_range("2024-01-31", periods=60).astype(str)
    table = load_data(visits(day=day, gate=[f"{k % 5}b" for k in range(60)]), **COLUMNS)
    described = {column["name"]: column for column in table.describe()}
    assert described["day"]["values"] == "2024-01-31 … 2024-03-30"
    assert described["gate"]["values"] == "0b, 1b, 2b and 2 more"
    assert described["carrier"]["missing"] == visits()["carrier"].isna().sum()
    assert described["weekend"]["type"] == "boolean"


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "visits.parquet", visits())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'riskmatch\[parquet\]'"):
        load(path, COLUMNS)


def test_columns_of_label_and_domain_must_be_named(tmp_path):
    path = write(tmp_path / "visits.csv", visits())
    with pytest.raises(ValueError, match=r"--label NAME.*'distance'.*list of images has path"):
        load(path)
    (tmp_path / "visits.csv").write_text("path,label,domain\na.jpg,cat,ink\n")
    assert resolve(path).contents == "images"
