"""Labels of every kind, from tensors, tables, lists of images and files of features."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from riskmatch.data import Domain, DomainSet, load, load_data
from riskmatch.data.catalogue import describe_data
from riskmatch.data.doctor import examine_data
from riskmatch.data.features import read_features, write_features
from riskmatch.data.images.manifest import index_manifest
from riskmatch.data.labels import read_tags

N = 8
X = torch.zeros(N, 3)
NAMES = ("beard", "glasses", "hat")
TAGS = np.array(
    [[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0], [np.nan] * 3, [1, 0, 0], [0, 0, 1], [1, 1, 1]]
)
"""Tags of eight people; those of the fifth are unknown."""


def same(y, expected=TAGS):
    return np.array_equal(np.asarray(y), expected, equal_nan=True)


def lists(row):
    return [name for name, tag in zip(NAMES, row, strict=True) if tag == 1]


def table(**labels):
    site = ["north", "south"] * (N // 2)
    return pd.DataFrame({"age": np.arange(N) + 30, "site": site, **labels})


def by_columns():
    return table(**{name: TAGS[:, k] for k, name in enumerate(NAMES)})


FORMS = {
    "lists": lists,
    "json": lambda row: json.dumps(lists(row)),
    "bars": lambda row: "|".join(lists(row)) or "[]",
    "semicolons": lambda row: " ; ".join(lists(row)) or "[]",
}


def by_lists(form):
    values = [None if math.isnan(row[0]) else FORMS[form](row) for row in TAGS]
    return table(tags=pd.Series(values, dtype=object))


def y_of(data):
    """Labels in the order of the table."""
    y = torch.empty(N, *data.domains[0].y.shape[1:])
    for name, rows in data.rows.items():
        y[rows - 1] = data.domains[data.names.index(name)].y.float()
    return y


@pytest.mark.parametrize(
    ("y", "labels", "outputs"),
    [
        (torch.arange(N) % 3, "classes", 3),
        (torch.randn(N), "numbers", 1),
        (torch.arange(2 * N).view(N, 2) % 2, "tags", 2),
        (torch.tensor([[0.0, torch.nan, 1.0]] * N), "tags", 3),
        (torch.randn(N, 4), "any", 4),
        (torch.arange(2 * N).view(N, 2), "any", 2),
        (torch.zeros(N, 5, 6, dtype=torch.long), "any", 30),
    ],
)
def test_labels_follow_from_type_shape_and_values(y, labels, outputs):
    for source in ((X, y), TensorDataset(X, y), Domain("a", X, y)):
        data = load_data({"a": source, "b": source})
        assert (data.labels, data.outputs) == (labels, outputs)
        assert data.domains[0].y.shape == y.shape


def test_labels_of_several_shapes_are_refused():
    with pytest.raises(ValueError, match=r"one shape, got \[\(2,\), \(3,\)\]"):
        load_data({"a": (X, torch.zeros(N, 2)), "b": (X, torch.zeros(N, 3))})
    with pytest.raises(ValueError, match=r"\(8, 1\).*y\[:, 0\]"):
        load_data({"a": (X, torch.zeros(N, 1))})


def test_names_of_tags():
    y = torch.from_numpy(TAGS).float()
    data = DomainSet("people", (Domain("a", X, y),), 0, class_names=NAMES)
    assert (data.labels, data.label_names, data.outputs) == ("tags", NAMES, 3)
    assert load_data({"a": (X, y)}).label_names == ("0", "1", "2")


def test_several_columns_are_tags(tmp_path):
    frame = by_columns()
    frame["hat"] = [None if math.isnan(v) else bool(v) for v in TAGS[:, 2]]
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    made = [load_data(frame, label=NAMES, domain="site")]
    for name in ("people.csv", "people.parquet"):
        for label in (list(NAMES), "beard,glasses,hat", ["beard", "glasses,hat"]):
            made.append(load_data(tmp_path / name, label=label, domain="site"))
    for data in made:
        assert (data.labels, data.class_names, data.label) == ("tags", NAMES, ",".join(NAMES))
        assert [column.name for column in data.columns] == ["age"]
        assert same(y_of(data))


def test_one_column_whose_name_has_a_comma_is_one_column():
    assert load_data(table(**{"a,b": ["x", "y"] * 4}), label="a,b", domain="site").classes == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_column_of_lists_is_tags(form, tmp_path):
    frame = by_lists(form)
    frame.to_parquet(tmp_path / "people.parquet")
    sources = [frame, tmp_path / "people.parquet"]
    if form != "lists":
        frame.to_csv(tmp_path / "people.csv", index=False)
        sources.append(tmp_path / "people.csv")
    for source in sources:
        data = load_data(source, label="tags", domain="site")
        assert (data.labels, data.class_names) == ("tags", NAMES)
        assert same(y_of(data))
        fitted = data.fitted(["south"])
        assert (fitted.labels, fitted.outputs, fitted.preprocessing.target) == ("tags", 3, None)


@pytest.mark.parametrize(
    ("frame", "label", "facts"),
    [
        (by_columns().assign(hat=[0, 1, 0, 2, 0, 0, 1, 0]), NAMES, ["'hat'", "row 4", "'2'"]),
        (by_columns().assign(hat=["no"] + [0] * 7), NAMES, ["'hat'", "row 1", "'no'"]),
        (table(tags=["a|b", '["a"', '["a",]', *"aaaaa"]), "tags", ["'tags'", "row 3", "JSON"]),
        (table(tags=[["a", None], *[["b"]] * 7]), "tags", ["'tags'", "row 1", "empty tag"]),
        (table(tags=["[]"] * N), "tags", ["'tags'", "no tags"]),
        (by_columns(), ["beard", "beart"], ["'beart'", "'beard'"]),
    ],
)
def test_errors_name_row_and_column(frame, label, facts):
    with pytest.raises(ValueError, match=facts[0]) as error:
        load_data(frame, label=label, domain="site")
    for fact in facts:
        assert fact in str(error.value)


def test_labels_become_what_the_task_takes():
    years = load_data(table(year=[2, 10] * 4), label="year", domain="site")
    assert years.class_names == ("2", "10")
    assert same(y_of(years.labelled("numbers")), np.array([2, 10] * 4))
    halves = load_data(table(score=[0.5, 2.0] * 4), label="score", domain="site")
    assert halves.labels == "numbers"
    classes = halves.labelled("classes")
    assert (classes.classes, classes.class_names) == (2, ("0.5", "2"))
    assert same(y_of(classes), np.array([0, 1] * 4))
    tags = years.labelled("tags")
    assert (tags.labels, tags.class_names) == ("tags", ("2", "10"))
    assert same(y_of(tags), np.array([[1, 0], [0, 1]] * 4))
    assert years.labelled("any") is years
    with pytest.raises(ValueError, match=r"takes tags, .*'score' are numbers of shape \(n\)"):
        halves.labelled("tags")
    with pytest.raises(ValueError, match=r"'mapping' are other values of shape \(n, 4\).*0, 1"):
        load_data({"a": (X, torch.randn(N, 4))}).labelled("tags")


@pytest.fixture
def images(tmp_path):
    for k in range(N):
        Image.new("RGB", (8, 8), (20 * k, 0, 0)).save(tmp_path / f"{k}.png")
    return tmp_path


def manifest(folder, name, frame):
    frame = frame.rename(columns={"site": "domain"}).drop(columns="age")
    frame.insert(0, "path", [f"{k}.png" for k in range(N)])
    path = folder / name
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".json":
        path.write_text(json.dumps(json.loads(frame.to_json(orient="records"))))
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_lists_of_images_have_tags(images, suffix):
    made = [(manifest(images, f"columns{suffix}", by_columns()), "beard,glasses,hat")]
    for form in FORMS:
        if suffix != ".csv" or form != "lists":
            path = manifest(images, f"{form}{suffix}", by_lists(form))
            made.append((path, "tags"))
    made.append(
        (manifest(images, f"d{suffix}", by_lists("bars").rename(columns={"tags": "label"})), None)
    )
    for path, label in made:
        index = index_manifest(path, label)
        order = [int(name[0]) for name in index.paths]
        assert (index.class_names, index.classes) == (NAMES, 0)
        assert same(index.labels, TAGS[order])
        assert index.domain_sizes() == {"north": 4, "south": 4}


def test_lists_of_images_have_numbers_where_there_are_fractions(images):
    ages = [30, 31.5, 40, 20, 25, 60, 7, 9]
    path = manifest(images, "ages.csv", table(label=ages))
    data = load(str(path), {"image_size": 8})
    assert (data.labels, data.classes, data.class_names) == ("numbers", 0, ())
    assert data.domains[0].y.tolist() == ages[::2]
    whole = load(str(manifest(images, "whole.csv", table(label=range(N)))), {"image_size": 8})
    assert whole.classes == N
    assert whole.labelled("numbers").domains[1].y.tolist() == [1, 3, 5, 7]


def test_errors_of_lists_of_images_name_file_line_and_column(images):
    path = manifest(images, "bad.csv", by_columns().assign(hat=[0, 1, 0, 2, 0, 0, 1, 0]))
    with pytest.raises(ValueError, match=r"'hat' in .*bad.csv, line 5 is '2'.*0, 1"):
        load(str(path), {"label": ["beard", "hat"]})
    with pytest.raises(ValueError, match=r"label applies only to tables.*folder"):
        load(str(images), {"label": "hat"})


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("labels", ["tags", "numbers"])
def test_files_of_features_keep_labels(tmp_path, suffix, views, labels):
    x = torch.randn((N, 4) if views == 1 else (N, views, 4))
    y = torch.from_numpy(TAGS).float() if labels == "tags" else torch.arange(N) / 3
    names = NAMES if labels == "tags" else ()
    data = DomainSet("people", (Domain("a", x, y), Domain("b", x, y)), 0, class_names=names)
    write_features(data, tmp_path / f"people{suffix}")
    read = read_features(tmp_path / f"people{suffix}")
    assert (read.labels, read.class_names) == (labels, names)
    assert same(read.domains[1].y, y.numpy())


def test_the_doctor_describes_tags_and_numbers(images):
    known = TAGS[:, 0][[0, 2, 6]]  # of north; the fifth is unknown
    for path in (manifest(images, "people.csv", by_columns()), by_columns()):
        if isinstance(path, pd.DataFrame):
            done = examine_data(load_data(path, label=NAMES, domain="site"))
        else:
            done = examine_data(str(path), options={"label": list(NAMES)})
            (row,) = describe_data(str(path), {"label": "beard,glasses,hat"})
            assert row["labels"] == done.labels
        assert done.labels["north"]["beard"] == pytest.approx(known.mean())
        assert done.counts["north"] == {"beard": 2, "glasses": 1, "hat": 2}
        assert (done.sizes, len(done)) == ({"north": 4, "south": 4}, N)
    scores = load_data(table(score=np.arange(N) / 2), label="score", domain="site")
    north = examine_data(scores).labels["north"]
    assert north == pytest.approx({"mean": 1.5, "spread": np.std([0, 1, 2, 3])})


def test_the_doctor_finds_tags_that_say_nothing_or_leak():
    n = 400
    rng = np.random.default_rng(0)
    site = np.array(["north", "south"])[np.arange(n) % 2]
    frame = pd.DataFrame({"site": site, "age": rng.normal(50, 9, n)})
    frame["old"] = (frame["age"] > 50).astype(int)
    frame["hat"] = rng.integers(0, 2, n) * (site == "north")
    frame["never"] = 0
    data = load_data(frame, label=["old", "hat", "never"], domain="site")
    found = {(f.kind, f.severity, f.subject) for f in examine_data(data).findings}
    assert ("one-class", "fault", "never") in found
    assert ("one-class", "warning", "south") in found
    assert ("label-leak", "fault", "age") in found


def test_classes_with_a_separator_in_their_names_are_no_tags():
    names = pd.Series(["cats; dogs", "birds", "cats; dogs", "birds"])
    assert read_tags([names], str) is None
    assert read_tags([pd.Series(["cats; dogs", "dogs"])], str)[0] == ("cats", "dogs")
