"""``--metric``, ``--worst`` and ``--by`` of the commands that compare runs."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from riskmatch.runs import records
from riskmatch.runs.frame import results

COLUMNS = "--domain site --ignore sex --ignore"
FAST = "--steps 8 --eval-every 4 --lr 0.02 --model-option widths=[6]"
FAR = """
import numpy as np
from riskmatch.metrics import Metric
FAR = Metric(title="far off", higher=False, range=(0, 1),
             function=lambda y, predicted, scores: float(np.mean(abs(predicted - y) > 1)))
"""


@pytest.fixture
def visits(tmp_path):
    n, random = 120, np.random.default_rng(0)
    x = random.normal(size=n)
    days = 7.125 + 2 * x + random.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": x,
            "sex": random.choice(["F", "M"], n),
            "site": np.array(["north", "south", "west"])[np.arange(n) % 3],
            "days": days.round(3) + 0.0005,
            "late": np.where(days > 7, "yes", "no"),
        }
    )
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return frame


def train(riskmatch, label, other, *more, methods=("erm", "coral"), site="west"):
    words = f"visits.csv --label {label} {COLUMNS} {other} --test-domain {site} {FAST} --quiet"
    for method in methods:
        done = riskmatch("train", *shlex.split(words), "--method", method, *more)
        assert (done.code, done.err) == (0, "")


def test_a_regression_has_its_table_and_its_report(riskmatch, visits):
    for site in ("north", "south", "west"):
        train(riskmatch, "days", "late", site=site)
    (table,) = json.loads(riskmatch("sweep", "table", "runs", "--worst", "--json").out)
    frame = results("runs")
    erm = table["rows"][0]
    known = frame[frame.method == "erm"].filter(like="rmse/train/")
    for site in ("north", "south", "west"):
        assert known[f"rmse/train/{site}"].sub(erm[f"{site} mean"]).abs().min() < 1e-4
    means = [erm[f"{site} mean"] for site in ("north", "south", "west")]
    assert erm["average"] == pytest.approx(np.mean(means), abs=1e-5)
    assert erm["worst test domain mean"] == pytest.approx(max(means))
    shown = riskmatch("show", "runs")
    assert "Expected RMSE" in shown.out
    assert "nan" not in shown.out
    assert riskmatch("report", "runs", "-o", "r.html", "--by", "sex", "--quiet").code == 0
    assert "RMSE by sex" in Path("r.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["show runs", "sweep table runs", "report runs --quiet"])
def test_a_metric_that_no_record_has_is_refused_with_those_there_are(riskmatch, visits, command):
    train(riskmatch, "days", "late", methods=["erm"])
    done = riskmatch(*shlex.split(command), "--metric", "auroc")
    assert done.code == 2
    for fact in ("'auroc'", "'mae'", "'r2'", "'rmse'"):
        assert fact in done.err
    assert riskmatch(*shlex.split(command), "--metric", "r2").code == 0


def test_the_metric_of_a_run_is_what_training_and_tables_show(riskmatch, visits):
    train(riskmatch, "late", "days", "--metric", "log-loss", "--metrics", "accuracy,auroc")
    (folder, *_) = sorted(Path("runs").iterdir())
    task = records.read(folder).task
    assert (set(task.metrics), task.primary) == ({"accuracy", "auroc", "log-loss"}, "log-loss")
    table = riskmatch("sweep", "table", "runs").out
    assert "log loss on the 80 % part of the test domain, mean" in table
    assert "lower is better" in table
    other = riskmatch("sweep", "table", "runs", "--metric", "auroc", "--by", "sex").out
    assert "AUROC on the 80 % part of the test domain in per cent" in other
    assert "worst group" in other
    run = json.loads(riskmatch("show", str(folder), "--json").out)
    assert run["metric"]["name"] == "log-loss"
    scores = records.read(folder).evaluations[-1].scores
    assert set(run["run"]["domains"]["west"]["log-loss"]) == set(scores["west"])


def test_the_summary_of_training_is_in_the_unit_of_the_label(riskmatch, visits):
    words = f"visits.csv --label days {COLUMNS} late --test-domain west {FAST} --method erm"
    done = riskmatch("train", *shlex.split(words))
    assert "RMSE, held out" in done.out
    (folder,) = Path("runs").iterdir()
    value = records.read(folder).evaluations[-1].scores["north"]["train"].metrics["rmse"]
    assert f"{value:.4g}" in done.out


def test_a_metric_of_your_own_is_compared_after_training(riskmatch, visits):
    train(riskmatch, "days", "late")
    Path("far_metrics.py").write_text(FAR)
    table = riskmatch("sweep", "table", "runs", "--metric", "far_metrics:FAR")
    assert (table.code, table.err) == (0, "")
    assert "far off on the 80 % part of the test domain in per cent" in table.out
    by_sex = riskmatch("show", "runs", "--metric", "far_metrics:FAR", "--by", "sex", "--json")
    (groups,) = json.loads(by_sex.out)["groups"]
    assert {row["sex"] for row in groups["rows"]} == {"F", "M"}


def test_advice_by_another_metric(riskmatch, visits):
    words = f"visits.csv --label late {COLUMNS} days {FAST} --methods coral --draws 1 --jobs 1"
    done = riskmatch("advise", *shlex.split(words), "--metric", "log-loss", "--json")
    assert done.code == 0
    values = json.loads(done.out)
    assert set(values["expected"]) == {"log-loss", "low", "high", "level", "worst", "sites"}
    assert values["options"]["metric"] == "log-loss"
    erm, coral, trivial, logistic, boosting = values["methods"]
    assert boosting["method"] == "gradient boosting"
    assert max(logistic["values"].values()) < min(trivial["values"].values())
    gain = np.mean([erm["values"][site] - coral["values"][site] for site in erm["values"]])
    assert coral["gain_over_erm"]["points"] == pytest.approx(gain)
    refused = riskmatch("advise", *shlex.split(words), "--metric", "rmse")
    assert refused.code == 2
    assert "'rmse'" in refused.err
    assert "auroc" in refused.err
