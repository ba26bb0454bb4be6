"""Models of every task, saved and loaded: predictions, evaluations, exports and cards."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import metrics as sklearn_metrics

import riskmatch
from riskmatch.cli import main

FAST = {"steps": 20, "eval_every": 20, "model_options": {"widths": [8]}, "lr": 0.01}
TAGS = ("heavy", "old")


def people(n=240, seed=0):
    random = np.random.default_rng(seed)
    age, weight = random.normal(50, 9, n), random.normal(70, 8, n)
    frame = pd.DataFrame({"age": age, "weight": weight})
    frame["site"] = np.array(["north", "south", "west"])[np.arange(n) % 3]
    frame["old"] = (age + random.normal(0, 3, n) > 50).astype(float)
    frame["heavy"] = (weight + random.normal(0, 3, n) > 70).astype(float)
    frame["cost"] = 1000 + 50 * age + random.normal(0, 30, n)
    frame.loc[::7, "old"] = np.nan
    return frame


def saved(tmp, **options):
    run = riskmatch.train(people(), "erm", domain="site", out=tmp / "runs", **{**FAST, **options})
    return riskmatch.save_model(run, tmp / "model")


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("tags"), label=list(TAGS), ignore=["cost"])


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("cost"), label="cost", ignore=TAGS)


def card(folder):
    text = (folder / "README.md").read_text()
    assert "ccuracy" not in text
    assert "nan" not in text
    return text


def test_a_model_states_its_task(tags, cost):
    values = json.loads((tags / "model.json").read_text())
    assert values["task"]["name"] == "multi-label"
    assert (values["labels"], values["classes"]) == ("tags", list(TAGS))
    model = riskmatch.load_model(cost)
    assert (model.facts.name, model.facts.primary, model.labels) == (
        "regression",
        "rmse",
        "numbers",
    )
    assert "A model of 2 tags" in card(tags)
    assert "mean AP, %" in card(tags)
    assert "A regression" in card(cost)
    assert "lowest mean validation RMSE" in card(cost)


def test_predictions_of_tags(tags, tmp_path):
    model, new = riskmatch.load_model(tags), people(seed=1)
    p = model.predict_proba(new)
    assert p.shape == (240, 2)
    assert not np.allclose(p.sum(1), 1)
    predicted = model.predict(new)
    np.testing.assert_array_equal(predicted, p > 0.5)
    table = riskmatch.predict(tags, new, tmp_path / "p.csv")
    assert list(table.columns) == ["row", "tags", "p_heavy", "p_old"]
    expected = ["|".join(np.array(TAGS)[row > 0]) for row in predicted]
    assert list(table["tags"]) == expected
    np.testing.assert_allclose(table[["p_heavy", "p_old"]], p)
    assert (sklearn_metrics.accuracy_score(new["heavy"], predicted[:, 0])) > 0.7


@pytest.mark.parametrize("form", ["columns", "lists", "one column"])
def test_evaluations_of_tags_are_those_of_scikit_learn(tags, form):
    new = people(seed=2)
    label, known = None, {name: new[name].notna() for name in TAGS}
    if form == "lists":
        new = new[new["old"].notna()]
        known = {name: new[name].notna() for name in TAGS}
        new["tags"] = [[name for name in TAGS if row[name] == 1] for _, row in new.iterrows()]
        label = "tags"
    elif form == "one column":
        label, known["old"] = "old,heavy", known["old"] & False
        new = new.drop(columns="old").assign(old=np.nan)
    table = riskmatch.evaluate(tags, new, label=label).set_index("domain")
    model = riskmatch.load_model(tags)
    for site, rows in new.groupby("site"):
        p = model.predict_proba(rows)
        parts = [
            sklearn_metrics.average_precision_score(rows[name][mask], p[mask, k])
            for k, name in enumerate(TAGS)
            if (mask := known[name][rows.index].to_numpy()).any()
        ]
        assert table.loc[site, "mean-ap"] == pytest.approx(np.mean(parts))
        low, high = table.loc[site, ["mean-ap_low", "mean-ap_high"]]
        assert low < table.loc[site, "mean-ap"] < high
    assert table["mean-ap"][table.attrs["worst"]] == table["mean-ap"].min()
    assert not [name for name in table if "accuracy" in name]


def test_evaluations_of_a_regression_are_in_the_unit_of_the_label(cost):
    new = people(seed=3)
    table = riskmatch.evaluate(cost, new, metric="mae")
    assert (table.attrs["metric"], list(table.attrs["metrics"])) == ("mae", ["rmse", "mae", "r2"])
    predicted = pd.Series(riskmatch.load_model(cost).predict(new), new.index)
    for row in table.to_dict("records"):
        rows = new[new["site"] == row["domain"]]
        y, guess = rows["cost"], predicted[rows.index]
        assert row["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(y, guess))
        assert row["r2"] == pytest.approx(sklearn_metrics.r2_score(y, guess), abs=1e-5)
        assert row["mae_low"] < row["mae"] < row["mae_high"]
    assert table.set_index("domain")["mae"].idxmax() == table.attrs["worst"]
    assert list(riskmatch.predict(cost, new).columns) == ["row", "prediction"]
    with pytest.raises(ValueError, match=r"regression.*no probabilities"):
        riskmatch.load_model(cost).predict_proba(new)


def test_a_metric_that_cannot_be_computed_is_missing_with_its_reason(tags, cost, tmp_path, capsys):
    new = people(seed=4)
    new.loc[new["site"] == "west", list(TAGS)] = 1.0
    table = riskmatch.evaluate(tags, new)
    assert table.set_index("domain")["auroc"].isna().to_dict() == {
        "north": False,
        "south": False,
        "west": True,
    }
    assert table.attrs["missing"] == {"west": {"auroc": "one class is present"}}
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["evaluate", str(tags), str(tmp_path / "new.csv"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["missing"] == table.attrs["missing"]
    assert values["domains"][2]["auroc"] is None
    assert main(["evaluate", str(tags), str(tmp_path / "new.csv"), "--metric", "auroc"]) == 0
    shown = capsys.readouterr().out
    assert "no AUROC of west: one class is present" in shown
    assert "nan" not in shown
    assert "worst AUROC" in shown


@pytest.mark.parametrize("metric", ["aurok", "my_missing:metric"])
def test_unknown_metrics_are_named(cost, metric):
    with pytest.raises(ValueError, match=metric.partition(":")[0]):
        riskmatch.evaluate(cost, people(), metric=metric)


def test_unknown_tags_and_other_labels_are_refused(tags):
    new = people()
    with pytest.raises(ValueError, match="no column 'wide'"):
        riskmatch.evaluate(tags, new, label="old,wide")
    with pytest.raises(ValueError, match=r"'cost' of 'table' has no lists"):
        riskmatch.evaluate(tags, new, label="cost")
    new["tags"] = "old|tall"
    with pytest.raises(ValueError, match="tag of 'table' for this model 'tall'"):
        riskmatch.evaluate(tags, new, label="tags")


@pytest.mark.parametrize("name", ["tags", "cost"])
def test_exports_agree(name, request, tmp_path):
    folder, new = request.getfixturevalue(name), people(seed=5)
    model = riskmatch.load_model(folder)
    exported = riskmatch.export(folder, tmp_path / "m.pt2", format="torch", inputs=new)
    program = torch.export.load(exported.path).module()
    last = program(model.preprocessing.transform(new))[-1].detach().numpy()
    truth = model.predict_proba(new) if name == "tags" else model.predict(new)
    np.testing.assert_allclose(last, truth, rtol=1e-4)
    assert exported.metadata["task"]["name"] == model.facts.name


OWN = """
import numpy as np
import torch
from riskmatch.contract.task import Task
from riskmatch.metrics import Metric

share = Metric(title="right pixels", range=(0, 1), function=lambda y, p, s: np.mean(y == p))
PIXELS = Task(
    lambda outputs, y: (outputs.view(y.shape) - y).square().mean((1, 2)),
    lambda outputs: ((outputs.view(-1, 3, 4) > 0.5).float(), None),
    ("pixel_task:share",),
    "pixel_task:share",
)
"""


def test_a_task_of_ones_own_with_labels_of_any_shape(tmp_path, monkeypatch):
    (tmp_path / "pixel_task.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    x = torch.randn(60, 3, 4)
    y = (x > 0).float()
    data = {"A": (x[:30], y[:30]), "B": (x[30:], y[30:])}
    options = {**FAST, "task": "pixel_task:PIXELS", "model": "mlp", "out": tmp_path / "runs"}
    run = riskmatch.train(data, "erm", **options)
    assert run.record.task.primary == "pixel_task:share"
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    assert model.predict(x).shape == (60, 3, 4)
    assert riskmatch.predict(model, x).shape == (60, 13)
    table = riskmatch.evaluate(model, data)
    expected = (model.predict(x)[:30] == y[:30].numpy()).mean()
    assert table["pixel_task:share"][0] == pytest.approx(expected)
    assert "right pixels, %" in card(tmp_path / "model")
    with pytest.raises(ValueError, match=r"\(n, 3, 4\).*--task"):
        riskmatch.train(data, "erm", **{**options, "task": "auto"})
