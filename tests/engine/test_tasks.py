"""Runs of every task: what they record equals scikit-learn on what they predict."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as reference
import torch

from riskmatch import choose, load_run, results, train
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.engine import run as runs
from riskmatch.registry import PartError
from riskmatch.runs import predictions
from riskmatch.selection import best_step

OPTIONS = {"steps": 12, "eval_every": 4, "batch_size": 16, "lr": 0.01}


def inputs(n=90, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


def classes(count=3):
    x = inputs()
    y = x[:, :count].argmax(1) if count > 1 else (x[:, 0] > 0).long()
    return {name: (x + shift, y) for shift, name in enumerate("ABC")}


def tags():
    x = inputs()
    y = (x > 0).float()
    y[::7, 1] = torch.nan
    parts = tuple(Domain(name, x + shift, y) for shift, name in enumerate("ABC"))
    return DomainSet("tags", parts, 0, class_names=("beard", "hat", "tie"))


def visits():
    x = inputs().numpy()
    frame = pd.DataFrame({"age": x[:, 0], "weight": x[:, 1]})
    return frame.assign(minutes=40 + 9 * x[:, 0] + 0.5, site=list("ABC") * 30)


def stored(run):
    """Score and predictions of every part at the last step."""
    evaluation = run.record.evaluations[-1]
    for domain, splits in predictions.read(run.folder, evaluation.step).items():
        for split, values in splits.items():
            yield evaluation.scores[domain][split], values


def of_classes(y, predicted, scores):
    """scikit-learn's metrics of three classes, by name."""
    scores = scores.astype(float) / scores.sum(1, keepdims=True, dtype=float)
    one_hot = np.eye(3)[y]
    return {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced-accuracy": reference.balanced_accuracy_score(y, predicted),
        "macro-f1": reference.f1_score(y, predicted, average="macro"),
        "auroc": reference.roc_auc_score(one_hot, scores),
        "average-precision": reference.average_precision_score(one_hot, scores),
        "log-loss": reference.log_loss(y, scores, labels=range(3)),
        "brier": ((scores - one_hot) ** 2).sum(1).mean(),
    }


def of_tags(y, predicted, scores):
    columns = [(y[:, k], predicted[:, k], scores[:, k]) for k in range(y.shape[1])]
    columns = [(a[~np.isnan(a)], b[~np.isnan(a)], c[~np.isnan(a)]) for a, b, c in columns]
    return {
        "mean-ap": np.mean([reference.average_precision_score(a, c) for a, _, c in columns]),
        "macro-f1": np.mean([reference.f1_score(a, b) for a, b, _ in columns]),
        "auroc": np.mean([reference.roc_auc_score(a, c) for a, _, c in columns]),
    }


def of_numbers(y, predicted, scores):
    y, predicted = y.astype(float), predicted.astype(float)
    return {
        "rmse": reference.root_mean_squared_error(y, predicted),
        "mae": reference.mean_absolute_error(y, predicted),
        "r2": reference.r2_score(y, predicted),
    }


@pytest.mark.parametrize(
    ("task", "data", "options", "expected"),
    [
        ("classification", classes, {}, of_classes),
        ("multi-label", tags, {}, of_tags),
        ("regression", visits, {"label": "minutes", "domain": "site"}, of_numbers),
    ],
)
def test_every_recorded_metric_is_that_of_scikit_learn(tmp_path, task, data, options, expected):
    if task == "regression":
        options = {**options, "risk": "squared"}
    run = train(data(), "erm", "C", out=tmp_path, **options, **OPTIONS)
    assert run.record.task.name == task
    for score, values in stored(run):
        truth = expected(values.label, values.predicted, values.scores)
        assert score.metrics.keys() - {"ece"} == truth.keys()
        for name, number in truth.items():
            assert score.metrics[name] == pytest.approx(number, rel=1e-5), name
    header = json.loads((run.folder / "records.jsonl").read_text().splitlines()[0])
    assert header["task"]["primary"] == next(iter(header["task"]["metrics"]))


def test_predictions_of_a_regression_are_in_the_unit_of_the_label(tmp_path):
    frame = visits()
    run = train(
        *(frame, "erm", "C"), label="minutes", domain="site", risk="huber", out=tmp_path, **OPTIONS
    )
    (here,) = [v["val"] for d, v in predictions.read(run.folder, 12).items() if d == "C"]
    minutes = frame["minutes"][frame["site"] == "C"].to_numpy(np.float32)
    assert {*np.round(here.label, 3)} <= {*np.round(minutes, 3)}
    score, scale = run.record.evaluations[-1].scores["C"]["val"], run.preprocessing.target.scale
    # Small errors are squared errors / 2, of minutes that training standardised.
    assert score.metrics["rmse"] == pytest.approx(scale * math.sqrt(2 * score.risk), rel=1e-5)


def test_a_metric_that_cannot_be_computed_is_missing_with_its_reason(tmp_path):
    data = classes(1)
    data["C"] = (data["C"][0], torch.zeros(90, dtype=torch.long))
    run = train(data, "erm", "C", out=tmp_path, **OPTIONS)
    score = run.record.evaluations[-1].scores["C"]["val"]
    assert math.isnan(score.metrics["auroc"])
    assert "one class" in score.missing["auroc"]
    line = json.loads((run.folder / "records.jsonl").read_text().splitlines()[1])
    assert line["scores"]["C"]["val"]["metrics"]["auroc"] is None
    assert "missing" not in line["scores"]["A"]["val"]
    assert results(tmp_path)["auroc/val/C"].isna().all()


@pytest.mark.parametrize("metric", ["log-loss", "auroc"])
def test_the_primary_metric_chooses_checkpoints_in_its_direction(tmp_path, metric):
    options = {**OPTIONS, "eval_every": 1, "lr": 0.3}
    run = train(classes(), "erm", "C", out=tmp_path, metric=metric, **options)
    rows = run.evaluations[lambda e: (e["split"] == "val") & ~e["test"]]
    means = rows.groupby("step")[metric].mean()
    best = means.idxmin() if metric == "log-loss" else means.idxmax()
    assert best_step(run.record) == best == run.record.checkpoints["train-val"]
    (choice,) = choose(tmp_path).itertuples()
    assert (choice.metric, choice.step) == (metric, best)
    run.model(step="train-val")


def test_metrics_narrow_what_is_recorded_and_differ_in_the_id(tmp_path):
    whole = train(classes(), "erm", "C", out=tmp_path, **OPTIONS)
    few = train(classes(), "erm", "C", out=tmp_path, metrics="auroc", **OPTIONS)
    assert list(few.record.evaluations[0].scores["A"]["val"].metrics) == ["auroc"]
    assert few.record.task.primary == "auroc"
    assert few.config.id != whole.config.id
    assert all(
        torch.equal(a, b)
        for a, b in zip(few.model().parameters(), whole.model().parameters(), strict=True)
    )


@pytest.mark.parametrize("task", ["auto", "classification"])
def test_the_risk_that_the_task_has_anyway_is_the_same_run(tmp_path, task):
    run = train(classes(), "erm", "C", out=tmp_path, task=task, **OPTIONS)
    named = train(classes(), "erm", "C", out=tmp_path, task=task, risk="cross-entropy", **OPTIONS)
    assert named.folder == run.folder
    assert load_run(named.folder).config == run.config
    for config in (replace(run.config, risk="squared"), replace(run.config, risk="huber")):
        assert config.id != run.config.id  # of targets, though labels are classes


OWN = """
import torch
from riskmatch.contract.task import Task

def share_of_second(y, predicted, scores):
    return float((scores[:, 1] > 0.4).mean())

def risk(outputs, y):
    return (outputs - y.flatten(1)).abs().mean(1)

def predict(outputs):
    return outputs.reshape(len(outputs), 2, 2), None

def far(y, predicted, scores):
    return float(abs(predicted - y).mean())

MAPS = Task(risk, predict, ("own_task:far",), "own_task:far")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_task.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_task", None)


def test_own_metric_after_training_is_that_of_the_last_step(tmp_path, own):
    name, out = "own_task:share_of_second", tmp_path / "runs"
    run = train(classes(), "erm", "C", out=out, **OPTIONS)
    assert len(list(run.folder.glob("predictions/*.scores.npz"))) == 1
    (choice,) = choose(out, metric=name).itertuples()
    parts = predictions.read(run.folder, 12)
    assert choice.step == 12
    assert choice.value == (parts["C"]["train"].scores[:, 1] > 0.4).mean()
    assert choice.score == np.mean([(parts[d]["val"].scores[:, 1] > 0.4).mean() for d in "AB"])
    with pytest.raises(ValueError, match=r"No run has the metric 'rmse'. They have 'accuracy'"):
        choose(out, metric="rmse")


def test_own_task_and_metric_are_traced_to_their_source(tmp_path, own):
    x = inputs()
    parts = tuple(Domain(n, x, torch.rand(90, 2, 2)) for n in "ABC")
    data = DomainSet("maps", parts, 0)
    with pytest.raises(ValueError, match=r"float32 of shape \(n, 2, 2\): name a task of your own"):
        train(data, "erm", "C", out=tmp_path / "runs", **OPTIONS)
    options = {**OPTIONS, "task": "own_task:MAPS", "metric": "own_task:far"}
    run = train(data, "erm", "C", out=tmp_path / "runs", **options)
    assert run.config.sources.keys() == {"task", "metric:own_task:far"}
    assert run.record.parts.keys() == {"data", "task", "metric:own_task:far"} - {
        "data" if "data" not in run.record.parts else ""
    }
    for score, values in stored(run):
        assert values.label.shape[1:] == (2, 2)
        assert score.metrics == {
            "own_task:far": pytest.approx(abs(values.predicted - values.label).mean())
        }


def test_task_and_metric_that_do_not_fit_are_refused_before_training(tmp_path):
    for options, error, facts in (
        ({"task": "regresion"}, PartError, r"task 'regresion'. Did you mean 'regression'"),
        ({"metric": "aurok"}, PartError, r"metric 'aurok'. Did you mean 'auroc'"),
        ({"metric": "rmse"}, ValueError, r"of classes 'rmse'\. Valid: ('[\w-]+', ){7}'ece'\.$"),
        ({"metrics": ["auroc", "mean-ap"]}, ValueError, r"metric of classes 'mean-ap'"),
        ({"task": "regression"}, ValueError, r"regression needs numbers.*int64.*classification"),
        ({"risk": "binary-cross-entropy"}, ValueError, r"takes tags, and the task classification"),
    ):
        with pytest.raises(error, match=facts):
            train(classes(), "erm", "C", out=tmp_path, **options, **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_of_tags_continues_to_the_same_record(tmp_path):
    options = {**OPTIONS, "warmup": 2}
    whole = train(tags(), "vrex", "C", out=tmp_path / "whole", **options)

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tags(), "vrex", "C", out=tmp_path / "cut", **options, on_step=stop)
    resumed = train(tags(), "vrex", "C", out=tmp_path / "cut", **options, resume=True)
    for one, other in zip(whole.record.evaluations, resumed.record.evaluations, strict=True):
        assert one.scores == other.scores
    assert runs.records.read(resumed.folder).task == whole.record.task
