"""Runs below paths, and the tables made from them."""

import os
from dataclasses import replace

import pytest
from made_records import evaluation, run

from riskmatch.report.naming import data_title, method_title, run_title, run_titles
from riskmatch.report.page.cases import Cases
from riskmatch.report.page.data import notes
from riskmatch.report.page.headline import comparison, headline
from riskmatch.report.page.runs import find_run, find_runs
from riskmatch.runs import records
from riskmatch.sweep import plan
from riskmatch.sweep.plan import PlannedRun


def domains(test, accuracy, val=50, names="abc"):
    return {d: (accuracy if d in test else 90, val) for d in names}


def made(test, accuracy, method="erm", val=50, **others):
    """A run whose best validation step is 20, with the given accuracy on the test domains."""
    early = evaluation(10, **domains(test, 1.0, 40))
    return run(test, early, evaluation(20, **domains(test, accuracy, val)), method=method, **others)


def write(out, *runs):
    for one in runs:
        records.write(out / one.config.id, one)
    return out


def ids(found):
    return {one.config.id for one in found.runs}


ERM, RDM = made("a", 60.0), made("a", 64.0, method="rdm")


@pytest.mark.parametrize("inside", ["", "runs"])
def test_find_runs_in_a_folder_or_its_runs_folder(tmp_path, inside):
    write(tmp_path / "reproduced" / inside, ERM, RDM)
    assert ids(find_runs([tmp_path / "reproduced"])) == {ERM.config.id, RDM.config.id}


def test_find_runs_by_folder_and_by_file(tmp_path):
    folder = write(tmp_path, ERM, RDM) / ERM.config.id
    for path in folder, folder / records.FILE:
        (one,) = find_runs([path]).runs
        assert (one.folder, one.record.config) == (folder, ERM.config)


def test_find_runs_in_several_paths_without_duplicates(tmp_path):
    write(tmp_path, ERM, RDM)
    found = find_runs([tmp_path / RDM.config.id, tmp_path])
    assert [one.config.method for one in found.runs] == ["rdm", "erm"]


def test_planned_runs_of_a_sweep_and_missing_ones(tmp_path):
    planned = [ERM.config, made("b", 0, method="erm").config]
    plan.extend(tmp_path, [PlannedRun(config, "") for config in planned], "a test")
    write(tmp_path / "runs", ERM, RDM)
    found = find_runs([tmp_path])
    assert ids(found) == {ERM.config.id}
    (note,) = notes(found, Cases.of(found), shown=1)
    gone = f"ERM on b, trial 0: 1 of 1 runs ({planned[1].id})"
    assert gone in note
    assert "1 of 2 planned runs" in note


def test_damaged_runs_are_reported_and_skipped(tmp_path):
    write(tmp_path, ERM, RDM)
    (tmp_path / RDM.config.id / records.FILE).write_text("{]\n")
    found = find_runs([tmp_path])
    assert ids(found) == {ERM.config.id}
    assert "is not JSON" in found.damaged[0]
    assert found.damaged[0] in notes(found, Cases.of(found), shown=1)
    with pytest.raises(ValueError, match="is not JSON"):
        find_runs([tmp_path / RDM.config.id])


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({}, "nowhere does not exist"),
        ({"nowhere/notes.txt": "x"}, "nowhere holds no run. Give the folder"),
        (
            {"nowhere/plan.jsonl": "\n"},
            "Start with: riskmatch sweep run .*nowhere",
        ),
    ],
)
def test_error_without_runs_names_the_cure(tmp_path, files, cause):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(FileNotFoundError, match=cause):
        find_runs([tmp_path / "nowhere"])


def test_find_run_gives_the_newest_run_or_the_one_with_an_id(tmp_path):
    with pytest.raises(FileNotFoundError, match="riskmatch train"):
        find_run(None, tmp_path)
    write(tmp_path, ERM, RDM)
    for one, time in (ERM, 2e9), (RDM, 1e9):
        os.utime(tmp_path / one.config.id / records.FILE, (time, time))
    assert find_run(None, tmp_path) == tmp_path / ERM.config.id
    assert find_run(RDM.config.id[:6], tmp_path) == tmp_path / RDM.config.id


def of(tmp_path, *runs):
    found = find_runs([write(tmp_path, *runs)])
    return found, Cases.of(found)


def test_run_with_several_test_domains_is_compared_on_each(tmp_path):
    found, cases = of(tmp_path, made("ab", 30.0), made("ab", 40.0, method="rdm"))
    assert [r.config.test_domains for r in cases.records] == [("a",), ("b",)] * 2
    assert [list(r.evaluations[0].scores) for r in cases.records] == [["a", "c"], ["b", "c"]] * 2
    assert comparison(cases)["rows"] == [
        ["ERM", "30.0", "30.0", 30.0],
        ["RDM", "40.0", "40.0", 40.0],
    ]
    table = headline(cases, found.runs)
    assert {(row[1], row[2]) for row in table["rows"]} == {
        ("a", 30.0), ("b", 30.0), ("a", 40.0), ("b", 40.0)
    }  # fmt: skip


def test_runs_with_two_test_domains_serve_leave_one_out(tmp_path):
    partners = [run("ab", evaluation(20, **domains("ab", 70.0))), made("ac", 50.0)]
    found, cases = of(tmp_path, ERM, *partners)
    table = headline(cases, found.runs)
    assert table["columns"] == [
        "run", "test domain", "train-val", "test-val", "leave-one-out", "step of train-val"
    ]  # fmt: skip
    assert [row[1:] for row in table["rows"]] == [["a", 60.0, 60.0, 60.0, 20]]


def test_runs_with_different_training_domains_are_not_compared(tmp_path):
    found, cases = of(tmp_path, made("ab", 30.0), made("ac", 40.0))
    assert {r.config.test_domains for r in cases.records} == {("a", "b"), ("a", "c")}
    assert headline(cases, found.runs)["rows"] == []
    (note,) = notes(found, cases, 2)
    assert "Runs on toy have several test domains" in note


def test_leave_one_out_needs_runs_with_two_test_domains(tmp_path):
    found, cases = of(tmp_path, ERM)
    assert "leave-one-out" not in headline(cases, found.runs)["columns"]


def test_seeds_count_as_trials(tmp_path):
    runs = [made("a", 60.0 + seed, seed=seed) for seed in range(3)]
    runs += [made("a", 65.0 + 2 * seed, method="rdm", seed=seed) for seed in range(3)]
    found, cases = of(tmp_path, *runs)
    table = comparison(cases)
    assert [row[1] for row in table["rows"]] == ["61.0 ± 0.5", "67.0 ± 0.9"]
    (difference,) = table["differences"]
    # 5, 6, 7: the mean is 6 and the 95 % point of t with two degrees of freedom 4.3027.
    assert difference["mean"] == pytest.approx(6)
    assert difference["high"] - 6 == pytest.approx(4.3027 / 3**0.5, abs=1e-3)
    assert (difference["method"], difference["against"], difference["pairs"]) == ("RDM", "ERM", 3)
    assert any("seeds count as trials" in note for note in notes(found, cases, 6))


def test_trials_are_kept_where_seeds_equal_them(tmp_path):
    _, cases = of(tmp_path, *(made("a", 60.0, trial=trial, seed=trial) for trial in (2, 5)))
    assert not cases.renumbered
    assert {record.config.trial for record in cases.records} == {2, 5}


def test_draws_with_their_own_seeds_stay_draws(tmp_path):
    seeds = iter(range(100))
    runs = [
        made(d, 60.0 + 10 * trial + draw, val=50 + draw, trial=trial, draw=draw, seed=next(seeds))
        for d in "abc"
        for trial in (0, 1)
        for draw in range(3)
    ]
    found, cases = of(tmp_path, *runs)
    assert not cases.renumbered
    table = comparison(cases)
    assert table["rows"] == [["ERM", *["67.0 ± 3.5"] * 3, 67.0]]
    assert "3 draws in each of 2 trials" in table["caption"]
    assert headline(cases, found.runs)["rows"][0][:3] == ["ERM", "67.0 ± 3.5", "67.0 ± 3.5"]


def test_second_seed_of_one_draw_is_a_second_trial(tmp_path):
    draws = [made("a", 60.0 + draw, draw=draw, seed=10 + draw) for draw in range(4)]
    _, cases = of(tmp_path, *draws, made("a", 70.0, draw=2, seed=30))
    trials = {record.config.seed: record.config.trial for record in cases.records}
    assert trials == {10: 0, 11: 0, 12: 0, 13: 0, 30: 1}


def test_data_options_make_another_data_set(tmp_path):
    usual = [made("a", 60.0, data="pacs", seed=s, data_options={"seed": s}) for s in (0, 1)]
    odd = made("a", 99.0, data="pacs", data_options={"p": [0.5], "seed": 0})
    found, cases = of(tmp_path, *usual, odd)
    assert (cases.data, cases.main_data) == (["pacs", "PACS, p [0.5]"], ["pacs"])
    assert comparison(cases)["rows"] == [["ERM", "60.0 ± 0.0", 60.0]]
    (note,) = (n for n in notes(found, cases, 3) if "not compared" in n)
    assert "PACS, p [0.5]" in note


def test_fewest_data_options_are_the_default(tmp_path):
    odd = [{"task": "adaptation"}, {"holdout": 0.5}]
    _, cases = of(tmp_path, *(made("a", 60.0, data="pacs", data_options=o) for o in (*odd, {})))
    assert cases.data == ["pacs", "PACS, holdout 0.5", "PACS, task adaptation"]


def test_headline_of_few_runs_has_one_row_per_run(tmp_path):
    other = made("a", 70.0, method="rdm", seed=1)
    found, cases = of(tmp_path, ERM, RDM, other)
    table = headline(cases, found.runs)
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert table["columns"][-1] == "− ERM"
    assert rows["ERM on toy without a"] == ["a", 60.0, 60.0, 20, None]
    assert rows["RDM on toy without a, seed 0"] == ["a", 64.0, 64.0, 20, 4.0]
    assert rows["RDM on toy without a, seed 1"] == ["a", 70.0, 70.0, 20, None]


def test_headline_of_many_runs_has_one_row_per_method(tmp_path):
    runs = [
        made(d, base + k + gain, method=method, trial=trial, seed=trial)
        for method, gain in (("erm", 0), ("rdm", 2))
        for k, trial in enumerate((0, 1))
        for d, base in (("a", 40.0), ("b", 60.0), ("c", 80.0))
    ]
    found, cases = of(tmp_path, *runs)
    table = headline(cases, found.runs)
    assert table["columns"] == ["method", "train-val", "test-val", "lowest test domain", "− ERM"]
    assert table["rows"] == [
        ["ERM", "60.5 ± 0.4", "60.5 ± 0.4", "40.5 (a)", None],
        ["RDM", "62.5 ± 0.4", "62.5 ± 0.4", "42.5 (a)", "+2.0 ± 0.0"],
    ]


def test_comparison_over_data_sets_uses_averages(tmp_path):
    runs = [made(d, a, data=data) for data, a in (("pacs", 50.0), ("vlcs", 70.0)) for d in "abc"]
    _, cases = of(tmp_path, *runs)
    table = comparison(cases)
    assert table["columns"] == ["method", "VLCS", "PACS", "average"]
    assert table["rows"] == [["ERM", "70.0", "50.0", 60.0]]


def test_runs_without_evaluations_have_no_numbers(tmp_path):
    found, cases = of(tmp_path, run("a", status="failed"))
    assert headline(cases, found.runs)["rows"] == [["ERM on toy without a", "a", None]]
    assert "1 of 1 runs are not done" in notes(found, cases, 1)[0]


def test_run_titles_name_differences_or_the_id():
    many = made(tuple("abcde"), 1.0).config
    assert run_title(many) == "ERM on toy without 5 test domains"
    one, two = made("a", 1.0, lr=0.1).config, made("a", 1.0, lr=0.2, draw=3).config
    assert run_titles([one, two]) == [
        "ERM on toy without a, draw 0, lr 0.1",
        "ERM on toy without a, draw 3, lr 0.2",
    ]
    other = made("a", 1.0, lr=0.3, draw=4, dropout=0.5, steps=7).config
    assert run_titles([one, other])[1] == f"ERM on toy without a, {other.id}"


def test_titles_of_user_parts_are_their_names():
    assert method_title("my_methods:Robust") == "Robust"
    assert data_title("my_data.sets:Pets") == "Pets"
    config = replace(ERM.config, data="my_data:Pets", method="my_methods:Robust")
    assert run_title(config) == "Robust on Pets without a"
