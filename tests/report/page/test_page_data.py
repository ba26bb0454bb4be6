"""Page data of small real runs."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from riskmatch.defaults import run_config
from riskmatch.engine.run import train
from riskmatch.report.figures import plot_runs
from riskmatch.report.page import page_data
from riskmatch.report.tables import Table
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig

DOMAINS = ["0.9", "0.8", "0.1"]


def tiny(method, **others):
    values = {
        "steps": 20,
        "eval_every": 5,
        "data_options": {"samples": 100},
        "model_options": {"widths": [8]},
        **others,
    }
    return run_config(method, "colored-digits", ("0.1",), given=values)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of three runs, the first with predictions."""
    out = tmp_path_factory.mktemp("runs")
    train(tiny("erm"), out, predictions=True)
    for seed in 0, 1:
        train(tiny("rdm", warmup=5, seed=seed), out)
    return out


@pytest.fixture
def runs(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "runs")


@pytest.fixture
def erm(runs):
    return runs / tiny("erm").id


def checked_data(*paths, **options):
    data = page_data(paths, **options)
    values = {name: value for name, value in data.items() if not isinstance(value, Table)}
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    return data


def test_content_of_a_single_run(erm):
    record = records.read(erm)
    data = checked_data(erm, command="riskmatch report runs/x")
    assert data["title"] == "ERM on colored-digits without 0.1"
    assert (data["command"], data["comparison"]) == ("riskmatch report runs/x", None)
    (run,) = data["runs"]
    assert (run["id"], run["status"], run["error"]) == (record.config.id, "done", None)
    assert (run["training_domains"], run["test_domains"]) == (["0.9", "0.8"], ["0.1"])
    assert run["config"] == record.config.to_json()
    assert [shot["step"] for shot in run["snapshots"]] == run["curves"]["steps"] == [5, 10, 15, 20]
    last, score = run["snapshots"][-1], record.evaluations[-1].scores["0.8"]["val"]
    assert last["domains"]["0.8"]["n"] == 20
    assert last["domains"]["0.8"]["mean"] == pytest.approx(score.risk, rel=1e-5)
    assert run["curves"]["metric"]["0.8"]["val"][-1] == score.metrics["accuracy"]
    for part in "confusion", "calibration", "hardest":
        assert list(run[part]) == DOMAINS
    assert sum(entry["n"] for entry in run["calibration"]["0.1"]["bins"]) == 100
    risks = [example["risk"] for example in run["hardest"]["0.1"]]
    assert len(risks) == 12
    step = run["step_of_samples"]
    (chosen,) = (e for e in record.evaluations if e.step == step)
    largest = max(score.quantiles[-1] for score in chosen.scores["0.1"].values())
    assert risks == sorted(risks, reverse=True)
    assert risks[0] == pytest.approx(largest, rel=1e-5)
    assert run["hardest"]["0.1"][0]["thumbnail"].startswith("data:image/png;base64,")
    assert "--model-option" in run["reproduce"]


def test_samples_of_a_test_domain_are_all_shown_at_the_chosen_step(erm):
    data = checked_data(erm)
    (run,), row = data["runs"], data["headline"].rows[0]
    columns = dict(zip(data["headline"].columns, row, strict=True))
    assert run["step_of_samples"] == run["chosen_step"] == columns["step of train-val"]
    (at,) = (e for e in records.read(erm).evaluations if e.step == run["chosen_step"])
    test, training = at.scores["0.1"], at.scores["0.8"]["val"]
    right = round(80 * test["train"].metrics["accuracy"] + 20 * test["val"].metrics["accuracy"])
    assert run["samples"]["0.1"] == {"n": 100, "correct": right, "of": 100}
    assert np.trace(run["confusion"]["0.1"]) == right
    assert np.sum(run["confusion"]["0.1"]) == 100
    assert np.trace(run["confusion"]["0.8"]) / 20 == pytest.approx(training.metrics["accuracy"])
    assert columns["train-val"] == 100 * test["train"].metrics["accuracy"]
    assert run["sizes"]["0.1"] == {"train": 80, "val": 20}
    assert "1.2 on 0.1 (80 samples)" in data["notes"][0]


def test_matching_curves_are_those_of_the_figure(erm):
    (run,) = checked_data(erm)["runs"]
    train, val = plot_runs("matching", erm).panels["ERM on colored-digits without 0.1"]
    assert run["matching"]["steps"] == list(train.x) == [5, 10, 15, 20]
    assert run["matching"]["train"] == pytest.approx(list(train.y))
    assert run["matching"]["val"] == pytest.approx(list(val.y))


def test_checkpoint_replaces_missing_predictions(erm):
    (before,) = checked_data(erm)["runs"]
    shutil.rmtree(erm / predictions.FOLDER)
    (after,) = checked_data(erm)["runs"]
    kept = records.checkpoints(erm)
    step = after["chosen_step"] if after["chosen_step"] in kept else max(kept)
    assert [shot["step"] for shot in after["snapshots"]] == [step]
    assert after["samples"]["0.1"]["n"] == before["samples"]["0.1"]["n"] == 100
    assert after["step_of_samples"] == step
    (stored,) = (shot for shot in before["snapshots"] if shot["step"] == step)
    assert after["snapshots"][0]["mmd"]["p"][0][1] == stored["mmd"]["p"][0][1]
    if before["step_of_samples"] == step:
        assert after["confusion"] == before["confusion"]


def test_without_predictions_and_checkpoint(erm):
    for folder in predictions.FOLDER, "checkpoints":
        shutil.rmtree(erm / folder)
    data = checked_data(erm)
    (run,) = data["runs"]
    assert (run["snapshots"], run["confusion"], run["calibration"], run["hardest"]) == (
        [], {}, {}, {}
    )  # fmt: skip
    assert len(run["curves"]["loss"]) == 4
    assert data["headline"].rows[0][2] > 0
    assert "neither predictions nor its last checkpoint" in run["no_predictions"]
    assert "train again with the command below" in run["no_predictions"]
    assert run["reproduce"]


def test_curves_have_the_step_at_which_the_method_acts(runs):
    starts = {run["method"]: run["curves"]["start"] for run in page_data(runs)["runs"]}
    assert starts == {"erm": None, "rdm": 5}


def test_damaged_checkpoint_gives_a_note(runs):
    folder = runs / tiny("rdm", warmup=5, seed=1).id
    for checkpoint in (folder / "checkpoints").glob("*.safetensors"):
        checkpoint.write_bytes(b"no checkpoint")
    data = checked_data(folder)
    assert data["runs"][0]["snapshots"] == []
    assert ".safetensors is truncated or damaged" in data["runs"][0]["no_predictions"]


def test_several_runs_are_compared(runs):
    data = checked_data(runs)
    assert data["title"] == "2 methods on colored-digits"
    assert sorted(run["title"] for run in data["runs"]) == [
        "ERM on colored-digits without 0.1",
        "RDM (two moments) on colored-digits without 0.1, seed 0",
        "RDM (two moments) on colored-digits without 0.1, seed 1",
    ]
    assert [len(run["snapshots"]) for run in data["runs"]].count(4) == 1
    (difference,) = data["differences"]
    assert (difference["against"], difference["n"]) == ("ERM", 1)
    assert difference["low"] is None


def test_missing_data_give_no_pictures(erm, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    record = records.read(erm)
    config = RunConfig("pacs", record.config.test_domains, "erm", model="lite0")
    elsewhere = tmp_path / config.id
    records.write(elsewhere, records.RunRecord(config, record.evaluations, "done"))
    shutil.copytree(erm / predictions.FOLDER, elsewhere / predictions.FOLDER)
    data = checked_data(elsewhere)
    (run,) = data["runs"]
    assert run["classes"] == ["0", "1"]
    assert run["hardest"]["0.1"][0]["thumbnail"] is None
    assert "riskmatch data get pacs" in data["notes"][0]


def test_runs_of_the_only_test_domain_are_shown_by_method(runs):
    for seed in range(2, 6):
        other = tiny("rdm", warmup=5, seed=seed)
        done = records.read(runs / tiny("rdm", warmup=5).id)
        records.write(runs / other.id, records.RunRecord(other, done.evaluations, "done"))
    data = checked_data(runs)
    assert sorted(run["method"] for run in data["runs"]) == ["erm", "rdm"]
    assert any("Shown in detail: 2 of 7 runs" in note for note in data["notes"])
    assert data["headline"].columns[0] == "method"


def test_non_finite_numbers_become_null(erm):
    file = erm / records.FILE
    first, *others = file.read_text().splitlines()
    values = json.loads(others[0])
    values["loss"] = values["scores"]["0.8"]["val"]["risk"] = None
    file.write_text("\n".join([first, json.dumps(values), *others[1:]]) + "\n")
    curves = checked_data(erm)["runs"][0]["curves"]
    assert curves["loss"][0] is curves["risk"]["0.8"]["val"][0] is None


def test_import_does_not_load_torch():
    code = "import sys, riskmatch.report.page; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
