"""Tables, verdicts, figures and pages of metrics in other units, or of which lower is better."""

import csv
import io
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from made_records import NOT_KNOWN
from made_sweep import half_of_these_domains

from riskmatch.metrics import METRICS, MetricFacts
from riskmatch.report.comparison import tables_of
from riskmatch.report.figures.catalogue import plot_runs
from riskmatch.report.page import page_data, summarise
from riskmatch.report.render import render
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import results_of
from riskmatch.runs.lines import Evaluation, Score
from riskmatch.runs.records import RunRecord
from riskmatch.runs.task import TaskFacts

REGRESSION = TaskFacts.of("regression", "rmse", {name: METRICS[name] for name in ("rmse", "r2")})
ERM = {("a", 0): 12.5, ("a", 1): 13.1, ("b", 0): 9.8, ("b", 1): 10.4}
RDM = {("a", 0): 11.9, ("a", 1): 12.2, ("b", 0): 9.9, ("b", 1): 10.0}


def made(method, domain, trial, error, data="toy", task=REGRESSION):
    """A run whose best validation error is at step 20, where it has ``error`` on its domain."""

    def evaluation(step, val, test):
        scores = {
            name: {
                "train": Score(
                    {"rmse": test if name == domain else 1.0, "r2": 0.5}, 2.0, NOT_KNOWN
                ),
                "val": Score({"rmse": val, "r2": 0.9 - val / 100}, 2.0, NOT_KNOWN),
            }
            for name in "ab"
        }
        return Evaluation(step, scores, 1.0, {}, {}, "", 1.0, 0.1, 2**30)

    config = RunConfig(data, (domain,), method, {}, trial=trial, risk="squared")
    steps = (evaluation(10, 8.0, 99.0), evaluation(20, 4.0, error), evaluation(30, 6.0, 99.0))
    return RunRecord(config, steps, "done", task=task)


def regression(erm=ERM, rdm=RDM, **others):
    return [
        made(method, domain, trial, value, **others)
        for method, values in (("erm", erm), ("rdm", rdm))
        for (domain, trial), value in values.items()
    ]


def stored(runs, folder):
    for run in runs:
        records.write(folder / run.config.id, run)
    return folder


def cells(table, label):
    (row,) = (row for row in table.rows if row[0] == label)
    return dict(zip(table.columns, map(str, row), strict=True))


def test_the_lowest_error_is_chosen_and_a_gain_over_erm_is_a_smaller_error():
    (table,) = tables_of(results_of(regression()))
    erm, rdm = cells(table, "ERM"), cells(table, "RDM")
    assert erm["a"] == "12.80 ± 0.21"
    assert float(erm["average"]) == pytest.approx(fmean(ERM.values()), abs=0.005)
    gains = [ERM[key] - RDM[key] for key in ERM]
    half = half_of_these_domains([gains[:2], gains[2:]])
    assert rdm["gain over ERM"] == f"+{np.mean(gains):.2f} ± {half:.2f}"
    assert "RMSE on the 80 % part" in table.caption
    assert "per cent" not in table.caption
    assert "lower is better" in table.caption
    assert "lowest mean validation RMSE" in table.caption


def test_the_worst_domain_of_a_trial_has_the_largest_error():
    runs = regression(rdm={("a", 0): 11.9, ("a", 1): 9.2, ("b", 0): 9.9, ("b", 1): 10.0})
    (table,) = tables_of(results_of(runs), worst=True)
    assert cells(table, "RDM")["worst test domain"].startswith(f"{fmean([11.9, 10.0]):.2f} ±")
    (usual,) = tables_of(results_of(runs))
    assert "worst test domain" not in usual.columns


def test_numbers_for_programs_are_in_the_unit_of_the_label():
    (table,) = tables_of(results_of(regression()))
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(table.csv()))}
    assert float(rows["ERM"]["a mean"]) == pytest.approx(12.8)
    (row, _) = table.to_json()["rows"]
    assert row["average"] == pytest.approx(fmean(ERM.values()))
    assert r"12.80 $\pm$ 0.21" in table.latex()


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e6])
def test_four_digits_are_shown_of_any_unit(scale):
    runs = regression(
        {k: v * scale for k, v in ERM.items()}, {k: v * scale for k, v in RDM.items()}
    )
    (table,) = tables_of(results_of(runs))
    shown = cells(table, "ERM")["a"].partition(" ")[0]
    assert float(shown) == pytest.approx(12.8 * scale, rel=1e-3)
    (row, _) = table.to_json()["rows"]
    assert row["a mean"] == pytest.approx(12.8 * scale, rel=1e-4)


def test_another_metric_is_shown_on_request_and_an_unknown_one_is_refused_with_those_there_are():
    results = results_of(regression())
    (table,) = tables_of(results, metric="r2")
    assert "R² on the 80 % part" in table.caption
    assert cells(table, "ERM")["a"].startswith("0.5000")
    with pytest.raises(ValueError, match=r"'auroc'.*r2.*rmse"):
        tables_of(results, metric="auroc")


def test_runs_of_different_primary_metrics_name_both():
    mixed = TaskFacts.of("regression", "r2", dict(REGRESSION.metrics))
    runs = regression() + regression(data="zoo", task=mixed)
    with pytest.raises(ValueError, match=r"r2.*rmse.*--metric"):
        tables_of(results_of(runs))
    assert len(tables_of(results_of(runs), metric="rmse")) == 3


def test_errors_in_different_units_are_not_averaged_over_data_sets():
    runs = regression() + regression(data="zoo")
    overview = tables_of(results_of(runs))[-1]
    assert cells(overview, "ERM")["average"] == "None"
    assert "gain over ERM" not in overview.columns
    shares = tables_of(results_of(runs), metric="r2")[-1]
    assert float(cells(shares, "ERM")["average"]) == pytest.approx(0.5)


def test_the_verdict_is_for_the_smaller_error(tmp_path):
    summary = summarise(stored(regression(), tmp_path))
    assert summary["metric"]["name"] == "rmse"
    assert summary["verdict"]["better than ERM"] == "no method"
    assert summary["verdict"]["expected RMSE"].startswith("10.10–12.80 over 2 test domains")
    better = regression(rdm={key: value - 3 for key, value in ERM.items()})
    verdict = summarise(stored(better, tmp_path / "better"))["verdict"]
    assert verdict["better than ERM"].startswith("RDM (+3.00")
    headline = summarise(tmp_path / "better")["headline"]
    assert cells(headline, "RDM")["highest test domain"] == "9.80 (a)"


def test_the_page_of_a_regression_is_whole_and_says_what_it_lacks(tmp_path):
    data = page_data(stored(regression(), tmp_path))
    html = render(data)
    assert "<h4>RMSE</h4>" in html
    assert not re.search("accuracy", re.sub("<script.*", "", html, flags=re.DOTALL), re.IGNORECASE)
    run = data["runs"][0]
    assert run["curves"]["metric"]["a"]["val"] == [8.0, 4.0, 6.0]
    assert "RMSE" in data["comparison"].caption


def test_curves_show_the_metric_in_its_unit(tmp_path):
    folder = stored(regression(), tmp_path)
    (first, *_) = sorted(path for path in folder.iterdir())
    plot = plot_runs("curves", first)
    assert plot.ylabel == "RMSE"
    (curves,) = plot.panels.values()
    assert list(curves[0].y) in ([8.0, 4.0, 6.0], [99.0, curves[0].y[1], 99.0])
    assert plot_runs("curves", first, metric="r2").ylabel == "R²"
    with pytest.raises(ValueError, match=r"'accuracy'.*r2.*rmse"):
        plot_runs("curves", first, metric="accuracy")
    with pytest.raises(ValueError, match=r"worst shows no metric.*curves"):
        plot_runs("worst", first, metric="rmse")


def test_per_cent_is_for_metrics_between_zero_and_one():
    facts = {"share": MetricFacts("share", range=(0, 1)), "loss": MetricFacts("loss", higher=False)}
    task = TaskFacts.of("mine:TASK", "share", facts)

    def record(method, share):
        score = Score({"share": share, "loss": 0.25}, 1.0, NOT_KNOWN)
        scores = {name: {"train": score, "val": score} for name in "ab"}
        evaluation = Evaluation(1, scores, 1.0, {}, {}, "", 1.0, 0.1, 1)
        return RunRecord(RunConfig("toy", ("a",), method), (evaluation,), "done", task=task)

    results = results_of([record("erm", 0.25), record("rdm", 0.5)])
    (table,) = tables_of(results)
    assert "share on the 80 % part of the test domain in per cent" in table.caption
    assert cells(table, "RDM")["gain over ERM"] == "+25.0"
    assert cells(tables_of(results, metric="loss")[0], "RDM")["a"] == "0.2500"


ALLOWED = {
    "app.py": "estimate the accuracy",
    "estimate.py": "(?i)estimate the accuracy",
    "evaluate.py": ".",
    "tables.py": 'Accuracy$|"Accuracy"',
    "advising.py": "by default the accuracy",
    "run.html": "Accuracy against confidence",
    "calibration.js": r"bin\.accuracy|accuracy against|\"accuracy\"|, accuracy \$",
    "details.py": r"accuracy_b|\"accuracy\"",
    "comparison.py": r"cost\.accuracy|of accuracies",
    "page.py": r"Points of accuracy",
    "published.py": ".",
    "siblings.py": ".",  # of probes, which classify
    "report.py": r"compare an accuracy|\"accuracies\" if",
}
"""Lines that are about accuracy and nothing else: calibration, the paper's numbers, counts."""


def test_no_other_line_of_reports_advice_and_commands_is_about_accuracy_alone():
    source = Path(__file__).parents[2] / "src" / "riskmatch"
    files = [
        p for part in ("report", "advice", "cli") for p in sorted((source / part).rglob("*.*"))
    ]
    lines = [
        f"{path.name}: {line.strip()}"
        for path in files
        if path.suffix in (".py", ".js", ".html")
        for line in path.read_text("utf-8").splitlines()
        if re.search("accurac", line, re.IGNORECASE)
        and not re.search(r"\bACCURACY\b", line)
        and not re.search(ALLOWED.get(path.name, "(?!)"), line)
    ]
    assert lines == []
