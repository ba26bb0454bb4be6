"""The metric by group of samples, from the stored predictions of runs."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from torch import nn

import riskmatch
from riskmatch.data import split
from riskmatch.data.catalogue import load
from riskmatch.data.images.manifest import column_texts
from riskmatch.report.groups import Groups
from riskmatch.runs import predictions, records
from riskmatch.runs.predictions import Predictions
from riskmatch.selection import choose

SITES = ("north", "south", "west")
OPTIONS = {"label": "late", "domain": "site", "ignore": ["sex", "ward"]}
FAST = {"steps": 8, "eval_every": 4, "lr": 0.02, "model_options": {"widths": [8]}}


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A table whose column sex is not an input, and three values of which one is rare."""
    n, random = 300, np.random.default_rng(0)
    x = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": x,
            "sex": random.choice(["F", "M"], n),
            "ward": random.choice(["1", "2"], n),
            "site": np.array(SITES)[np.arange(n) % 3],
            "late": np.where(x + random.normal(size=n) > 0, "yes", "no"),
        }
    )
    frame.loc[:8, "sex"] = "X"
    path = tmp_path_factory.mktemp("groups") / "visits.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def runs(visits):
    out = visits.parent / "runs"
    for site in SITES:
        riskmatch.train(str(visits), "erm", site, data_options=OPTIONS, out=out, **FAST)
    return out


def samples(visits, runs):
    """Label, prediction, sex and site of every sample that is reported, by brute force."""
    frame, table = pd.read_csv(visits, dtype=str), load(str(visits), OPTIONS)
    rows = []
    for choice in choose(runs).itertuples():
        (domain,) = (d for d in table.domains if d.name == choice.test_domain)
        stored = predictions.read(runs / choice.run, choice.step)[choice.test_domain]["train"]
        part = split(domain, 0)["train"]
        for index, label, predicted in zip(
            stored.index, stored.label, stored.predicted, strict=True
        ):
            (row,) = (domain.x == part.x[index]).all(1).nonzero()[:, 0].tolist()
            number = int(table.rows[choice.test_domain][row]) - 1
            rows.append((label, predicted, frame.sex[number], frame.site[number]))
    return pd.DataFrame(rows, columns=["label", "predicted", "sex", "site"])


@pytest.mark.parametrize("by", [["sex"], ["sex", "site"]])
def test_the_metric_of_a_group_is_that_of_scikit_learn(visits, runs, by):
    found = samples(visits, runs)
    (table,) = riskmatch.summarise(runs, by=by)["groups"]
    assert table.columns == (", ".join(by), "samples", "accuracy")
    expected = {
        ", ".join(name): (str(len(part)), 100 * accuracy_score(part.label, part.predicted))
        for name, part in found.groupby(by)
        if len(part) >= 10
    }
    shown = {row[0]: (row[1], row[2].mean) for row in table.rows}
    assert shown == {name: (n, pytest.approx(value)) for name, (n, value) in expected.items()}
    values = [row[2].mean for row in table.rows]
    assert values == sorted(values)  # worst first
    rare = found[found.sex == "X"]
    assert f"on {len(found)} stored samples" in table.caption
    for name, part in rare.groupby(by):
        assert f"{', '.join(name)} ({len(part)})" in table.caption


def test_the_table_of_a_sweep_has_the_worst_group(visits, runs):
    found = samples(visits, runs)
    by_sex = {
        name: 100 * balanced_accuracy_score(part.label, part.predicted)
        for name, part in found.groupby("sex")
        if len(part) >= 10
    }
    worst = min(by_sex, key=by_sex.__getitem__)
    (table,) = riskmatch.tables_of(runs, metric="balanced-accuracy", by=["sex"])
    (cell,) = (row[table.columns.index("worst group")] for row in table.rows)
    value, name, n = re.fullmatch(r"([\d.]+) \((\w); n (\d+)\)", cell).groups()
    assert (name, int(n)) == (worst, int((found.sex == worst).sum()))
    assert float(value) == pytest.approx(by_sex[worst], abs=0.05)


def test_the_page_has_a_table_of_groups(runs, tmp_path):
    page = riskmatch.write_report(runs, tmp_path / "r.html", by=["ward"]).read_text("utf-8")
    assert "Groups of samples" in page
    assert "Groups of samples" not in riskmatch.write_report(runs, tmp_path / "s.html").read_text()


def test_an_unknown_column_and_data_without_columns_are_refused(runs, tmp_path):
    with pytest.raises(ValueError, match=r"no column 'sez'.*'sex'"):
        riskmatch.summarise(runs, by=["sez"])
    riskmatch.train(
        "colored-digits", "erm", "0.1", steps=2, eval_every=2, out=tmp_path,
        data_options={"samples": 60},
    )  # fmt: skip
    with pytest.raises(ValueError, match="colored-digits has no columns"):
        riskmatch.summarise(tmp_path, by=["sex"])


def test_changed_data_are_not_grouped(visits, runs):
    config = records.read(next(path for path in runs.iterdir() if path.is_dir())).config
    groups = Groups.read(config, ["sex"])
    labels = split(groups.domains["north"], 0)["train"].y[:3].numpy()
    index = np.arange(3)
    same = Predictions(index, labels, labels, labels * 1.0, labels * 1.0)
    assert set(groups.of(config, "north", "train", same)) <= {"F", "M", "X"}
    other = Predictions(index, 1 - labels, labels, labels * 1.0, labels * 1.0)
    with pytest.raises(ValueError, match="changed"):
        groups.of(config, "north", "train", other)


def test_groups_of_a_run_without_stored_predictions_come_from_its_checkpoint(
    visits, runs, tmp_path
):
    kept = {}
    for run in runs.iterdir():
        if (run / records.FILE).exists():
            for path in (run / predictions.FOLDER).glob("*"):
                kept[path] = path.rename(tmp_path / f"{run.name}-{path.name}")
    try:
        (again,) = riskmatch.summarise(runs, by=["sex"])["groups"]
    finally:
        for path, moved in kept.items():
            moved.rename(path)
    (stored,) = riskmatch.summarise(runs, by=["sex"])["groups"]
    assert {row[0] for row in again.rows} == {row[0] for row in stored.rows}
    assert len(kept) > 0


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl"])
def test_columns_of_lists_of_images_are_read_by_path(tmp_path, suffix):
    rows = [
        {"path": "a/1.png", "label": "x", "domain": "d", "sex": "F"},
        {"path": "a/2.png", "label": "x", "domain": "d", "sex": ""},
    ]
    path = tmp_path / f"list{suffix}"
    if suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(lines if suffix == ".jsonl" else json.dumps(rows))
    assert column_texts(path, ["path", "sex"]) == [("a/1.png", "F"), ("a/2.png", "")]
    with pytest.raises(ValueError, match=r"no column 'sez'.*Did you mean 'sex'\?"):
        column_texts(path, ["sez"])


class Brightness(nn.Module):
    """The mean of the pixels of an image, and a layer on it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, x):
        features = x.float().mean((1, 2, 3)).div(255)[:, None]
        return features, self.layer(features)


def test_images_of_a_list_are_grouped_by_its_columns(tmp_path):
    random, rows = np.random.default_rng(0), []
    for number in range(120):
        dark = number % 2
        shade = int(random.integers(0, 160) + 90 * (1 - dark))
        Image.new("RGB", (8, 8), (shade, shade, number)).save(tmp_path / f"{number}.png")
        sex = random.choice(["F", "M"])
        rows.append((f"{number}.png", ("light", "dark")[dark], SITES[number % 3], sex))
    listed = pd.DataFrame(rows, columns=["path", "label", "domain", "sex"])
    listed.to_csv(tmp_path / "list.csv", index=False)
    out = tmp_path / "runs"
    options = {"steps": 8, "eval_every": 4, "lr": 0.1, "batch_size": 8, "model": Brightness()}
    riskmatch.train(str(tmp_path / "list.csv"), "erm", "north", out=out, **options)

    (choice,) = choose(out).itertuples()
    stored = predictions.read(out / choice.run, choice.step)["north"]["train"]
    (domain,) = (d for d in load(str(tmp_path / "list.csv")).domains if d.name == "north")
    part = split(domain, 0)["train"]
    numbers = part.x[:][:, 2, 0, 0].tolist()  # the blue of an image is its number
    right = {"F": [], "M": []}
    for index, predicted in zip(stored.index, stored.predicted, strict=True):
        row = listed.loc[numbers[index]]
        right[row.sex].append(("dark", "light")[predicted] == row.label)
    (table,) = riskmatch.summarise(out, by=["sex"])["groups"]
    shown = {row[0]: (int(row[1]), row[2].mean) for row in table.rows}
    assert shown == {
        sex: (len(hits), pytest.approx(100 * np.mean(hits))) for sex, hits in right.items()
    }
