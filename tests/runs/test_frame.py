"""Runs as one data frame."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from made_records import evaluation, run

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import frame_of, read_results, results
from riskmatch.sweep.plan import PlannedRun, extend

ONE = run("b", evaluation(10, a=(60, 61), b=(62, 63)), evaluation(20, a=(70, 71), b=(72, math.nan)))
TWO = run("x", evaluation(5, x=(80, 81), y=(82, 83)), method="rdm", data="zoo", status="failed")
EMPTY = run("b", method="vrex", status="unfinished")


def write(out, *runs):
    for one in runs:
        records.write(out / one.config.id, one)
    return out


def test_there_is_a_row_for_every_run_and_evaluation(tmp_path):
    frame = results(write(tmp_path, ONE, TWO, EMPTY)).set_index("run")
    one = frame.loc[ONE.config.id]
    assert list(one["step"]) == [10, 20]
    assert list(one["accuracy/train/a"]) == [0.6, 0.7]
    assert one["accuracy/val/b"].iloc[0] == 0.63
    assert math.isnan(one["accuracy/val/b"].iloc[1])
    assert one["accuracy/train/x"].isna().all()
    two = frame.loc[TWO.config.id]
    assert (two["method"], two["data"], two["status"], two["accuracy/val/y"]) == (
        "rdm", "zoo", "failed", 0.83
    )  # fmt: skip
    assert (two["test_domains"], two["domains"]) == (("x",), ("x", "y"))


def test_norms_of_gradients_are_columns_where_the_penalty_acts(tmp_path):
    before, after = ONE.evaluations
    norms = {"risk": 0.25, "penalty": 4.0}
    acting = replace(ONE, evaluations=(before, replace(after, gradients=norms)))
    frame = results(write(tmp_path, acting))
    assert frame["gradient/penalty"].tolist()[1:] == [4.0]
    assert frame["gradient/risk"].isna().tolist() == [True, False]


def test_a_run_without_evaluations_has_one_row_without_a_step(tmp_path):
    frame = results(write(tmp_path, ONE, EMPTY))
    (row,) = frame[frame["run"] == EMPTY.config.id].itertuples()
    assert row.step is pd.NA
    assert (row.status, row.domains) == ("unfinished", ())


def test_records_in_memory_give_the_frame_of_their_files(tmp_path):
    runs = sorted([ONE, TWO, EMPTY], key=lambda one: one.config.id)
    read = results(write(tmp_path, *runs))
    pd.testing.assert_frame_equal(read.assign(folder=""), frame_of(runs))


def test_settings_and_hyper_parameters_are_columns(tmp_path):
    hparams = {"weight": 5.0, "divergence": "moments"}
    config = RunConfig("toy", ("b",), "rdm", hparams, lr=0.5, model_options={"w": 1})
    other = replace(ONE, config=replace(ONE.config, hparams={"draw": "x"}))
    frame = results(write(tmp_path, replace(ONE, config=config), other)).set_index("run")
    row = frame.loc[config.id].iloc[0]
    assert (row["lr"], row["model_options"], row["hparams/weight"]) == (0.5, '{"w": 1}', 5.0)
    assert row["variant"] == "rdm moments"
    assert frame.loc[other.config.id, "hparams/draw"].iloc[0] == "x"
    assert math.isnan(frame.loc[other.config.id, "hparams/weight"].iloc[0])


def test_a_draw_is_the_same_where_only_domains_trial_and_seeds_differ():
    base = ONE.config
    same = [
        replace(base, test_domains=("a",)),
        replace(base, trial=3),
        replace(base, seed=3),
        replace(base, data_options={"seed": 4}),
    ]
    other = [replace(base, lr=0.5), replace(base, data_options={"p": 1}), replace(base, steps=7)]
    frame = frame_of([replace(ONE, config=config) for config in (base, *same, *other)])
    draws = frame.drop_duplicates("run")["draw"].to_list()
    assert len(set(draws[:5])) == 1
    assert len(set(draws)) == 4


@pytest.mark.parametrize("inside", ["", "runs"])
def test_a_folder_of_runs_is_read_with_and_without_runs_in_its_path(tmp_path, inside):
    write(tmp_path / "out" / inside, ONE, TWO)
    assert set(results(tmp_path / "out")["run"]) == {ONE.config.id, TWO.config.id}


def test_a_run_is_read_by_its_folder_and_its_file(tmp_path):
    folder = write(tmp_path, ONE, TWO) / ONE.config.id
    for path in folder, folder / records.FILE, str(folder):
        assert set(results(path)["folder"]) == {str(folder)}


def test_a_run_in_several_paths_counts_once(tmp_path):
    write(tmp_path, ONE, TWO)
    frame = results(tmp_path / TWO.config.id, tmp_path)
    assert list(frame["run"]) == [TWO.config.id, ONE.config.id, ONE.config.id]


def test_paths_may_be_a_list_and_a_run_stands_for_its_folder(tmp_path):
    first, second = (write(tmp_path, one) / one.config.id for one in (ONE, TWO))
    expected = results(first, second)
    stored = records.StoredRun(second, records.read(second))
    for paths in ([[first, second]], [(str(first), second)], [first, [stored]], [first, stored]):
        pd.testing.assert_frame_equal(results(*paths), expected)
    with pytest.raises(TypeError, match="folders of runs as paths, got 3"):
        results(3)


def test_of_a_sweep_only_the_planned_runs_count(tmp_path):
    planned = [ONE.config, EMPTY.config]
    extend(tmp_path, [PlannedRun(config, "") for config in planned], "a test")
    write(tmp_path / "runs", ONE, TWO)
    found = read_results([tmp_path])
    assert set(found.frame["run"]) == {ONE.config.id}
    assert [config.id for config in found.plan] == [config.id for config in planned]


@pytest.mark.parametrize(
    "line",
    [
        "{]",
        '{"kind": "end", "status": "done"\n"error": null}',
        '{"kind": "evaluation", "step": 1}',
        '{"kind": "evaluation", "step": 30, "scores": {"a": {"train": 1}}, "loss": 1, "terms": {}, '
        '"raw": {}, "worst_domain": "", "seconds": 1, "seconds_per_step": 1, "peak_memory": 1}',
    ],
)
def test_a_damaged_run_is_left_out_with_a_warning_that_names_file_and_line(tmp_path, line):
    write(tmp_path, ONE, TWO)
    file = tmp_path / ONE.config.id / records.FILE
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], line, *lines[2:], ""]))
    with pytest.warns(UserWarning, match=rf"{file}, line 3") as caught:
        frame = results(tmp_path)
    assert len(caught) == 1
    pd.testing.assert_frame_equal(frame.assign(folder=""), frame_of([TWO]), check_like=True)
    with pytest.raises(ValueError, match="line 3"):
        results(tmp_path / ONE.config.id)


def test_a_torn_last_line_is_not_read(tmp_path):
    file = write(tmp_path, ONE) / ONE.config.id / records.FILE
    file.write_bytes(file.read_bytes() + b'{"kind": "eval')
    assert len(results(tmp_path)) == 2


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({}, "nowhere does not exist"),
        ({"nowhere/notes.txt": "x"}, "nowhere holds no run. Give the folder of a run"),
        ({"nowhere/plan.jsonl": "\n"}, "Start with: riskmatch sweep run .*nowhere"),
    ],
)
def test_a_path_without_runs_is_an_error_with_its_cure(tmp_path, files, cause):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(FileNotFoundError, match=cause):
        results(tmp_path / "nowhere")
