"""Runs on tables: preprocessing with the run, resuming, regression, networks that do not fit."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from riskmatch import load_run, train
from riskmatch.data import load_data
from riskmatch.defaults import resolve, values_of
from riskmatch.models import build
from riskmatch.runs.findings import RunWarning
from riskmatch.selection import best_step
from riskmatch.sweep import plan_sweep, run_sweep
from riskmatch.sweep.launchers import Local

FAST = {
    "steps": 12,
    "eval_every": 6,
    "warmup": 4,
    "batch_size": 8,
    "model_options": {"widths": [6]},
}
COLUMNS = {"label": "late", "domain": "airport"}


def visits(n=90, seed=0):
    random = np.random.default_rng(seed)
    carrier = random.choice(["AA", "UA"], n)
    distance = random.normal(1000, 300, n)
    score = (distance - 1000) / 300 + 2 * (carrier == "UA")
    return pd.DataFrame(
        {
            "distance": np.where(random.random(n) < 0.1, np.nan, distance),
            "carrier": carrier,
            "airport": np.array(["JFK", "LGA", "EWR"])[np.arange(n) % 3],
            "late": np.where(score > 1, "yes", "no"),
            "delay": 40 * score,
        }
    )


def stop_at(step):
    def stop(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return stop


@pytest.fixture
def table(tmp_path):
    visits().drop(columns="delay").to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def test_text_in_a_column_of_numbers_is_warned_about_with_its_cell(table, tmp_path):
    frame = pd.read_csv(table).fillna(1000)
    for column in (frame["distance"].astype(str), frame["distance"].astype(object)):
        column[7] = "n.k."
        frame["distance"] = column
        with pytest.warns(RunWarning, match=r"'distance'.*89 of 90.*row 8 is 'n\.k\.'.*Correct"):
            train(frame, "rdm", "JFK", **COLUMNS, **FAST, out=tmp_path / "r")


def test_file_and_data_frame_give_the_same_run(table, tmp_path):
    by_file = train(table, "rdm", "JFK", **COLUMNS, **FAST, out=tmp_path / "a")
    frame = pd.read_csv(table)
    by_frame = train(frame, "rdm", "JFK", **COLUMNS, **FAST, out=tmp_path / "b")
    assert by_file.config.data_options == COLUMNS
    assert by_file.config.model == by_frame.config.model == "table"
    assert by_file.evaluations["risk"].equals(by_frame.evaluations["risk"])
    ignoring = train(table, "rdm", "JFK", **COLUMNS, **FAST, ignore="carrier", out=tmp_path / "a")
    assert ignoring.config.data_options["ignore"] == ["carrier"]
    assert ignoring.config.id != by_file.config.id


def test_run_holds_the_preprocessing_that_its_network_needs(table, tmp_path):
    trained = train(table, "rdm", "JFK", **COLUMNS, **FAST, out=tmp_path / "runs")
    run = load_run(trained.folder)
    assert run.preprocessing.to_json() == trained.preprocessing.to_json()
    table.rename(tmp_path / "gone.csv")
    frame = pd.read_csv(tmp_path / "gone.csv")
    rows = frame[frame["airport"] == "JFK"]
    with torch.no_grad():
        _, logits = run.model()(run.preprocessing.transform(rows))
    last = run.predictions[lambda p: (p["step"] == 12) & (p["domain"] == "JFK")]
    assert sorted(logits.argmax(1).tolist()) == sorted(last["predicted"])
    (run.folder / "preprocessing.json").write_text("{")
    with pytest.raises(ValueError, match=r"preprocessing.json"):
        load_run(run.folder).preprocessing  # noqa: B018


def test_interrupted_run_resumes_to_the_same_bits_and_changed_tables_are_refused(table, tmp_path):
    whole = train(table, "rdm", "JFK", **COLUMNS, **FAST, out=tmp_path / "a")
    common = {**COLUMNS, **FAST, "out": tmp_path / "b"}
    with pytest.raises(KeyboardInterrupt):
        train(table, "rdm", "JFK", **common, on_step=stop_at(8))
    text = table.read_text()
    table.write_text(text.replace("UA", "UB"))
    with pytest.raises(ValueError, match="data have changed since this run started"):
        train(table, "rdm", "JFK", **common, resume=True)
    table.write_text(text)
    resumed = train(table, "rdm", "JFK", **common, resume=True)
    table.write_text(text.replace("UA", "UB"))
    with pytest.warns(UserWarning, match="data differ from those that this run was trained on"):
        train(table, "rdm", "JFK", **common)
    ours, theirs = resumed.model().state_dict(), whole.model().state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("risk", ["squared", "huber"])
def test_regression_learns_a_target_in_its_own_unit(risk, tmp_path):
    frame = visits(300).drop(columns="late").assign(delay=lambda f: f["delay"].round())
    options = {"steps": 150, "eval_every": 30, "warmup": 100, "dropout": 0.0, "risk": risk}
    columns = {"label": "delay", "domain": "airport", "out": tmp_path}
    run = train(frame, "rdm", "JFK", **columns, **options)
    assert run.record.data.classes == ()
    val = run.evaluations[lambda e: (e["split"] == "val") & ~e["test"]]
    assert best_step(run.record) == val.groupby("step")["rmse"].mean().idxmin()
    run.model(step="train-val")  # its checkpoint is kept
    rows = frame[frame["airport"] == "JFK"].dropna()
    with torch.no_grad():
        _, outputs = run.model()(run.preprocessing.transform(rows))
    predicted = run.preprocessing.restore_target(outputs[:, 0]).numpy()
    assert np.corrcoef(predicted, rows["delay"])[0, 1] > 0.9
    assert np.abs(predicted - rows["delay"]).mean() < 20


def test_labels_and_networks_that_do_not_fit_are_refused(table, tmp_path):
    common = {**COLUMNS, **FAST, "out": tmp_path / "runs"}
    for changes, message in (
        ({"model": "mlp"}, "network mlp takes numbers.*1 columns of categories.*network table"),
        ({"risk": "squared"}, "label of numbers, and 'late' holds"),
        ({"frozen": True, "model": "lite0", "model_options": {}}, "a table, not images"),
        ({"label": "latte"}, "'latte'. Did you mean 'late'"),
        ({"test_domains": "JFQ"}, "'JFQ'. Did you mean 'JFK'"),
    ):
        with pytest.raises(ValueError, match=message):
            train(**{"data": table, "method": "rdm", "test_domains": "JFK", **common, **changes})
    delays = {**common, "label": "delay", "ignore": ["late"]}
    for wrong in ({"risk": "cross-entropy"}, {"task": "multi-label"}):
        with pytest.raises(ValueError, match=r"regression|numbers"):
            train(visits(), "rdm", "JFK", **delays, **wrong)
    with pytest.raises(FileNotFoundError, match=r"There is no .*nowhere.csv"):
        train(tmp_path / "nowhere.csv", "rdm", "JFK", **common)
    assert not (tmp_path / "runs").exists()


def test_many_numbers_as_classes_are_warned_about(tmp_path):
    frame = visits().assign(minutes=np.arange(90) % 21).drop(columns="late")
    common = {**COLUMNS, **FAST, "out": tmp_path, "label": "minutes"}
    with pytest.warns(RunWarning, match=r"has 21 different numbers.*squared"):
        train(frame, "rdm", **common)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The label", RunWarning)
        train(frame, "rdm", **common, risk="squared")


def test_sweep_fits_the_preprocessing_to_each_run(table, tmp_path):
    choices = {**FAST, "data_options": COLUMNS}
    plan = plan_sweep(tmp_path / "s", str(table), ["rdm"], draws=1, trials=1, choices=choices)
    assert len(plan.runs) == 3
    assert len(run_sweep(tmp_path / "s", Local(jobs=1)).done) == 3
    raw = load_data(table, **COLUMNS)
    for planned in plan.runs:
        run = load_run(tmp_path / "s" / "runs" / planned.config.id)
        expected = raw.fitted(planned.config.test_domains).preprocessing
        assert run.preprocessing.to_json() == expected.to_json()


def test_defaults_and_ranges_for_tables(table):
    values = values_of(resolve("rdm", str(table)))
    assert (values["model"], values["lr"], values["warmup"]) == ("table", 1e-3, 300)
    assert resolve("erm", str(table))["batch_size"].value == 128


def test_unseen_categories_start_at_zero_and_embeddings_depend_on_the_code():
    network = build("table", (3,), 2, options={"cardinalities": [5, 4], "widths": [8]})
    assert [layer.weight[0].abs().sum().item() for layer in network.embeddings] == [0, 0]
    one, other = network(torch.tensor([[0.1, 2, 3], [0.1, 3, 3]]))[1]
    assert not torch.equal(one, other)
    with pytest.raises(ValueError, match=r"rows of a table"):
        build("table", (3, 8, 8), 2)
    with pytest.raises(ValueError, match=r"2 categories .* do not fit 1 inputs"):
        build("table", (1,), 2, options={"cardinalities": [5, 4]})
