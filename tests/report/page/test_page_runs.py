"""Runs below paths, and the tables made from them."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_records import evaluation, run
from scipy import stats

from riskmatch.report.facts import lines, lost_without_another_domain, page_facts
from riskmatch.report.headline import (
    MAX_RUNS,
    comparison,
    differences,
    headline,
    hyperparameters,
    verdict,
)
from riskmatch.report.page import runs_in_detail
from riskmatch.report.selected import find_run, read_runs, select_runs
from riskmatch.report.tables import format_cell
from riskmatch.report.titles import data_title, method_title, run_title, run_titles
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.sweep import plan
from riskmatch.sweep.plan import PlannedRun


def domains(test, accuracy, val=50, names="abc"):
    return {d: (accuracy if d in test else 90, val) for d in names}


def made(test, accuracy, method="erm", val=50, names="abc", **others):
    """A run whose best validation step is 20, with the given accuracy on the test domains."""
    early = evaluation(10, **domains(test, 1.0, 40, names))
    late = evaluation(20, **domains(test, accuracy, val, names))
    return run(test, early, late, method=method, **others)


def write(out, *runs):
    for one in runs:
        records.write(out / one.config.id, one)
    return out


ERM, RDM = made("a", 60.0), made("a", 64.0, method="rdm")


def page_of(tmp_path, *runs, unit="domains"):
    return select_runs(write(tmp_path, *runs), unit=unit)


def headline_of(page):
    return headline(page, read_runs(page.runs) if len(page.runs) <= MAX_RUNS else [])


def texts(table):
    """The text of every cell, by row."""
    return [[format_cell(cell) for cell in row] for row in table.rows]


def notes(page, shown):
    return [*lines(page_facts(page, shown)), *page.results.left_out]


def test_missing_runs_of_a_sweep_are_noted(tmp_path):
    planned = [ERM.config, made("b", 0, method="erm").config]
    plan.extend(tmp_path, [PlannedRun(config, "") for config in planned], "a test")
    write(tmp_path / "runs", ERM, RDM)
    page = select_runs(tmp_path)
    assert set(page.runs["run"]) == {ERM.config.id}
    assert notes(page, shown=1) == [
        "Missing: ERM on b 1 of 1 runs.",
        "Planned runs that are missing: 1 of 2.",
    ]


def test_damaged_runs_are_noted(tmp_path):
    write(tmp_path, ERM, RDM)
    (tmp_path / RDM.config.id / records.FILE).write_text("{]\n")
    (note,) = notes(select_runs(tmp_path), shown=1)
    assert RDM.config.id in note
    assert "is not JSON" in note


def test_find_run_gives_the_newest_run_or_the_one_with_an_id(tmp_path):
    with pytest.raises(FileNotFoundError, match="riskmatch train"):
        find_run(None, tmp_path)
    write(tmp_path, ERM, RDM)
    for one, time in (ERM, 2e9), (RDM, 1e9):
        os.utime(tmp_path / one.config.id / records.FILE, (time, time))
    assert find_run(None, tmp_path) == tmp_path / ERM.config.id
    assert find_run(RDM.config.id[:6], tmp_path) == tmp_path / RDM.config.id


def test_run_with_several_test_domains_is_compared_on_each(tmp_path):
    page = page_of(tmp_path, made("ab", 30.0), made("ab", 40.0, method="rdm"))
    assert texts(comparison(page)) == [["ERM", *["30.0"] * 3], ["RDM", *["40.0"] * 3]]
    table = headline_of(page)
    assert {(row[1], row[2]) for row in table.rows} == {
        ("a", 30.0), ("b", 30.0), ("a", 40.0), ("b", 40.0)
    }  # fmt: skip


def test_runs_with_two_test_domains_serve_leave_one_out(tmp_path):
    partners = [run("ab", evaluation(20, **domains("ab", 70.0))), made("ac", 50.0)]
    page = page_of(tmp_path, ERM, *partners)
    table = headline_of(page)
    assert table.columns == (
        "run", "test domain", "train-val", "test-val", "leave-one-out", "step of train-val"
    )  # fmt: skip
    assert [row[1:] for row in table.rows] == [("a", 60.0, 60.0, 60.0, 20)]


def test_runs_with_different_training_domains_are_not_compared(tmp_path):
    page = page_of(tmp_path, made("ab", 30.0), made("ac", 40.0))
    assert headline_of(page).rows == ()
    (note,) = notes(page, 2)
    assert "several test domains" in note
    assert note.endswith(": toy.")


def test_leave_one_out_needs_runs_with_two_test_domains(tmp_path):
    page = page_of(tmp_path, ERM)
    assert "leave-one-out" not in headline_of(page).columns


def test_seeds_count_as_trials(tmp_path):
    runs = [made("a", 60.0 + seed, seed=seed) for seed in range(3)]
    runs += [made("a", 65.0 + 2 * seed, method="rdm", seed=seed) for seed in range(3)]
    page = page_of(tmp_path, *runs)
    table = comparison(page)
    assert [row[1] for row in texts(table)] == ["61.0 ± 0.5", "67.0 ± 0.9"]
    (difference,) = differences(page)
    # 5, 6, 7: the mean is 6 and the 95 % point of t with two degrees of freedom 4.3027.
    assert difference["mean"] == pytest.approx(6)
    assert difference["high"] - 6 == pytest.approx(4.3027 / 3**0.5, abs=1e-3)
    assert (difference["method"], difference["against"], difference["n"]) == ("RDM", "ERM", 3)
    assert difference["unit"] == "these domains"
    assert difference["adjusted p"] == pytest.approx(2 * stats.t.sf(6 * 3**0.5, 2))
    assert "Trials: runs that differ only in their seeds." in notes(page, 6)


def test_draws_with_their_own_seeds_stay_draws(tmp_path):
    seeds = iter(range(100))
    runs = [
        made(d, 60.0 + 10 * trial + draw, val=50 + draw, trial=trial, draw=draw, seed=next(seeds))
        for d in "abc"
        for trial in (0, 1)
        for draw in range(3)
    ]
    page = page_of(tmp_path, *runs)
    assert not any("seeds" in note for note in notes(page, len(page.runs)))
    table = comparison(page)
    assert texts(table) == [["ERM", *["67.0 ± 3.5"] * 3, "67.0"]]
    assert "Toy, draws: 3. Toy, trials: 2" in table.caption
    assert texts(headline_of(page))[0][:3] == ["ERM", "67.0 ± 3.5", "67.0 ± 3.5"]


def test_data_options_make_another_data_set(tmp_path):
    usual = [made("a", 60.0, data="pacs", seed=s, data_options={"seed": s}) for s in (0, 1)]
    odd = made("a", 99.0, data="pacs", data_options={"p": [0.5], "seed": 0})
    page = page_of(tmp_path, *usual, odd)
    assert [one.data for one in page.by_data] == ["pacs", "pacs, p [0.5]"]
    assert [one.data for one in page.compared] == ["pacs"]
    assert texts(comparison(page)) == [["ERM", "60.0", "60.0"]]
    (note,) = (n for n in notes(page, 3) if "not compared" in n)
    assert "PACS, p [0.5]" in note


def test_headline_of_few_runs_has_one_row_per_run(tmp_path):
    other = made("a", 70.0, method="rdm", seed=1)
    page = page_of(tmp_path, ERM, RDM, other)
    table = headline_of(page)
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.columns[-1] == "gain over ERM"
    assert rows["ERM on toy without a"] == ("a", 60.0, 60.0, 20, None)
    assert rows["RDM on toy without a, seed 0"] == ("a", 64.0, 64.0, 20, 4.0)
    assert rows["RDM on toy without a, seed 1"] == ("a", 70.0, 70.0, 20, None)


def test_headline_of_many_runs_has_one_row_per_method(tmp_path):
    runs = [
        made(d, base + k + gain, method=method, trial=trial, seed=trial)
        for method, gain in (("erm", 0), ("rdm", 2))
        for k, trial in enumerate((0, 1))
        for d, base in (("a", 40.0), ("b", 60.0), ("c", 80.0))
    ]
    page = page_of(tmp_path, *runs)
    table = headline_of(page)
    names = ("method", "train-val", "test-val", "lowest test domain", "gain over ERM")
    assert table.columns == names
    assert texts(table) == [
        ["ERM", "60.5 ± 0.4", "60.5 ± 0.4", "40.5 (a)", "—"],
        ["RDM", "62.5 ± 0.4", "62.5 ± 0.4", "42.5 (a)", "+2.0 ± <0.1"],
    ]


def test_comparison_over_data_sets_uses_averages(tmp_path):
    runs = [made(d, a, data=data) for data, a in (("pacs", 50.0), ("vlcs", 70.0)) for d in "abc"]
    page = page_of(tmp_path, *runs)
    table = comparison(page)
    assert table.columns == ("method", "VLCS", "PACS", "average")
    assert texts(table) == [["ERM", "70.0", "50.0", "60.0"]]


def test_runs_without_evaluations_have_no_numbers(tmp_path):
    page = page_of(tmp_path, run("a", status="failed"))
    assert headline_of(page).rows == (("ERM on toy without a", "a", None),)
    (note,) = notes(page, 1)
    assert note.startswith("Unfinished")
    assert note.endswith(": 1 of 1 runs.")


def test_run_titles_name_what_differs():
    many = made(tuple("abcde"), 1.0).config
    assert run_title(many) == "ERM on toy without 5 test domains"
    one, two = (made("a", 1.0, lr=lr, steps=steps).config for lr, steps in ((0.1, 7), (0.2, 9)))
    assert run_titles([one, two]) == [
        "ERM on toy without a, learning rate 0.1",
        "ERM on toy without a, learning rate 0.2",
    ]


def test_runs_of_a_search_are_named_by_their_hyperparameters_not_by_an_id():
    drawn = [(0.5, 0.1, 7, 0.5), (5.0, 0.2, 8, 0.1), (2.0004, 0.3, 9, 0.2), (2.0, 0.4, 5, 0.3)]
    configs = [
        RunConfig("pacs", ("sketch",), "rdm", {"weight": w}, lr=lr, steps=steps, dropout=p)
        for w, lr, steps, p in drawn
    ]
    names = [title.partition("sketch, ")[2] for title in run_titles(configs)]
    assert names == ["λ 0.5", "λ 5", "λ 2.0004", "λ 2.0"]


def test_titles_of_user_parts_are_their_names():
    assert method_title("my_methods:Robust") == "Robust"
    assert data_title("my_data.sets:Pets") == "Pets"
    config = replace(ERM.config, data="my_data:Pets", method="my_methods:Robust")
    assert run_title(config) == "Robust on Pets without a"


TABLE1 = {
    "ERM with RDM's switch": "erm-switch",
    "ERM": "erm",
    "GroupDRO": "groupdro",
    "IGA": "iga",
    "IRM (whole domains)": "irm",
    "VREx": "vrex",
    "EQRM": "eqrm",
    "CORAL": "coral",
    "MMD": "mmd",
    "RDM (two moments)": "rdm",
    "RDM": "rdm-mmd",
}
"""Names in table1.csv by title."""


def spread(row, column):
    mean, sd = row[f"{column} mean"], row[f"{column} sd"]
    return f"{float(mean):.1f}" + (f" ± {float(sd):.1f}" if sd else "")


def test_colored_mnist_has_the_numbers_of_table_1():
    folder = Path(__file__).parents[3] / "results/colored-mnist"
    lines = csv.DictReader((folder / "table1.csv").read_text("utf-8").splitlines())
    table1 = {(r["method"], r["initialisation"], r["selection"]): r for r in lines}
    page = select_runs(folder)
    best, last = "colored-mnist-best", "colored-mnist-last"
    table = headline_of(page)
    assert table.columns == ("method", best, last, "lowest test domain", "gain over ERM")
    shared = comparison(page)
    by_domain = {row[0]: dict(zip(shared.columns, row, strict=True)) for row in texts(shared)}
    for label, at_best, at_last, lowest, _ in texts(table)[:-1]:
        method, _, network = label.partition(", ")
        if method == "IRM":  # the estimate from halves, which is not in Table 1
            continue
        key = TABLE1[method], "erm" if network.startswith("ERM-initialised") else "random"
        assert at_best == spread(table1[(*key, best)], "p = 0.9")
        assert at_last == spread(table1[(*key, last)], "p = 0.9")
        assert lowest.partition(" (")[0] == spread(table1[(*key, best)], "worst p")
        for p in ("0", "0.5", "0.9", "1"):
            assert by_domain[label][p] == spread(table1[(*key, best)], f"p = {p}")
    oracle = texts(table)[-1]
    assert oracle[1] == spread(table1["oracle", "random", best], "p = 0.9")
    decided = verdict(page)
    assert "mlp (+47.8 ± 2.9, adjusted p 0.00" in decided["better than ERM"]
    best = "74 % on 0.9 with RDM (two moments), ERM-initialised mlp;"
    assert decided["expected accuracy"].startswith(best)
    assert "the choice uses the test domain itself" in decided["rule"]


def test_colored_mnist_without_the_papers_test_domain_uses_other_rules(tmp_path):
    page = page_of(tmp_path, made("ab", 30.0, data="colored-mnist"))
    assert [rule.name for rule in page.rules] == ["train-val", "test-val"]


def many():
    """ERM and RDM in two trials on every domain; c is the hardest."""
    level = {"a": 90.0, "b": 80.0, "c": 60.0}
    return [
        made(d, level[d] + trial + bonus, method=method, trial=trial, seed=trial)
        for method, bonus in (("erm", 0), ("rdm", 2))
        for trial in (0, 1)
        for d in "abc"
    ]


def test_every_test_domain_has_a_run_in_detail_the_hardest_first(tmp_path):
    shown = runs_in_detail(page_of(tmp_path, *many()))
    tests = [(run.config.method, *run.config.test_domains) for run in shown]
    assert tests == [(method, name) for method in ("rdm", "erm") for name in "cba"]


@pytest.mark.parametrize(
    ("gains", "better", "worse", "expected"),
    [
        (
            (2, 2, 2, 2, 2, 3),
            "RDM (+2.2 ± 0.5, adjusted p 0.001)",
            "",
            "62–92 % over 3 test domains with RDM",
        ),
        ((2, -2, 2, -2, 1, -1), "no method", "", "60–90 % over 3 test domains with ERM"),
        (
            (-2, -2, -2, -2, -2, -3),
            *(
                "no method",
                "RDM (−2.2 ± 0.5, adjusted p 0.001)",
                "60–90 % over 3 test domains with ERM",
            ),
        ),
    ],
)
def test_verdict_follows_the_adjusted_p_value_of_the_gain(tmp_path, gains, better, worse, expected):
    erm = [made(d, a, trial=t) for d, a in (("a", 90.0), ("b", 80.0), ("c", 60.0)) for t in (0, 1)]
    rdm = [
        made(d, 100 * one.evaluations[-1].scores[d]["train"].metrics["accuracy"] + gain,
             method="rdm", trial=one.config.trial)
        for one, gain in zip(erm, gains, strict=True)
        for d in one.config.test_domains
    ]  # fmt: skip
    decided = verdict(page_of(tmp_path, *erm, *rdm))
    assert (decided["better than ERM"], decided["worse than ERM"]) == (better, worse)
    assert decided["expected accuracy"] == expected
    assert "max-t" in decided["rule"]
    assert decided["unit"].startswith("these domains")
    assert "train-val" in decided["rule"]
    assert "optimistic" not in decided["rule"]


OTHERS = ("vrex", "irm", "eqrm", "coral", "mmd", "fishr", "fish", "iga", "mldg")


def test_verdict_names_few_domains_and_counts_all_methods(tmp_path):
    """3 points with a p-value of 0.02, which is not enough once ten methods are compared."""
    noise = np.random.default_rng(0).normal(0, 3, (9, 4))
    gains = {
        "rdm": (4.15, 1.85, 4.15, 1.85),
        **dict(zip(OTHERS, noise, strict=True)),
    }
    runs = [made(d, 60.0, names="abcd") for d in "abcd"]
    for method, values in gains.items():
        pairs = zip("abcd", values, strict=True)
        runs += [made(domain, 60.0 + value, method, names="abcd") for domain, value in pairs]
    alone = verdict(page_of(tmp_path / "one", *runs[:8], unit="new-domain"))
    assert alone["better than ERM"] == "RDM (+3.0 ± 2.1, adjusted p 0.020)"
    assert alone["unit"].startswith("a new domain")
    assert alone["4 domains are few"].endswith("below 0.125")
    several = verdict(page_of(tmp_path / "all", *runs, unit="new-domain"))
    assert several["better than ERM"] == "no method"
    assert "10 comparisons" in several["rule"]
    with pytest.raises(ValueError, match="unit"):
        select_runs(tmp_path / "one", unit="domain")


def test_verdict_without_intervals_or_without_erm(tmp_path):
    on_a_path = [replace(one, config=replace(one.config, data="/my/sites")) for one in (ERM, RDM)]
    alone = verdict(page_of(tmp_path / "one", *on_a_path))
    assert alone["better than ERM"] == "unknown"
    assert "one trial" in alone["no interval of these domains"]
    assert alone["expected accuracy"].startswith("60 % on a with ERM; one test domain")
    other = verdict(page_of(tmp_path / "two", RDM, made("b", 70.0, method="rdm")))
    assert "no run of ERM" in other["better than ERM"]
    assert other["expected accuracy"].endswith("with RDM")
    assert verdict(page_of(tmp_path / "none", run("a", status="failed"))) == {}


def test_notes_name_what_pairs_differ_in(tmp_path):
    larger = made("a", 64.0, method="rdm", batch_size=88, lr=0.5)
    (note,) = (n for n in notes(page_of(tmp_path, ERM, larger), 2) if "more than the method" in n)
    assert "batch size (88, ERM 32)" in note
    assert "learning rate" in note
    same = notes(page_of(tmp_path / "same", ERM, RDM), 2)
    assert not any("more than the method" in n for n in same)


def test_a_choice_of_the_warm_up_is_noted(tmp_path):
    early, late = (
        replace(one, config=replace(one.config, hparams={"warmup": warmup, "weight": 1.0}))
        for one, warmup in ((RDM, 20), (RDM, 10))
    )
    (note,) = notes(page_of(tmp_path / "early", early), 1)
    assert "Chosen before the method acts: " in note
    assert notes(page_of(tmp_path / "late", late), 1) == []
    several = notes(page_of(tmp_path / "both", early, ERM), 2)
    assert "Chosen before the method acts: 1 of 2 (RDM 1 of 1)." in several


def test_percentages_have_one_decimal(tmp_path):
    table = headline_of(
        page_of(tmp_path, made("a", 100 * 125 / 126), made("a", 100 * 124 / 126, method="rdm"))
    )
    rows = {row[0]: row for row in texts(table)}
    assert rows["ERM on toy without a"][2] == "99.2"
    assert rows["RDM on toy without a"][2] == "98.4"
    assert rows["RDM on toy without a"][-1] == "−0.8"
    assert "80 % part of the test domain" in table.caption


def test_hyperparameters_have_a_point_for_every_run_and_domain(tmp_path):
    runs = [
        replace(one, config=replace(one.config, hparams={"weight": weight}))
        for weight, gain in ((0.1, 0), (1.0, 1), (10.0, 2))
        for d in "ab"
        for one in [made(d, 60.0 + gain, method="rdm")]
    ]
    (entry,) = hyperparameters(page_of(tmp_path, ERM, made("b", 70.0), *runs))
    (chart,) = entry["charts"]
    assert (entry["method"], chart["title"], chart["log"]) == ("RDM", "λ", True)
    points = {(x, d): y for x, y, d in chart["points"]}
    assert points == pytest.approx(
        {(w, d): y for w, y in ((0.1, 60), (1.0, 61), (10.0, 62)) for d in "ab"}
    )


def test_hyperparameters_of_a_method_without_evaluations_are_left_out(tmp_path):
    one = made("a", 64.0, method="rdm")
    named = replace(one, config=replace(one.config, hparams={"match": "worst"}))
    begun = run("a", method="vrex", status="unfinished")
    assert hyperparameters(page_of(tmp_path, ERM, named, begun)) == []


def test_domains_left_out_together_are_compared_each(tmp_path):
    page = page_of(tmp_path, made("a", 80.0), made(("b", "c"), 70.0))
    assert texts(comparison(page)) == [["ERM", "80.0", "70.0", "70.0", "73.3"]]


def test_a_domain_that_owes_its_accuracy_to_another_is_noted(tmp_path):
    alone = [made(d, a) for d, a in (("a", 97.0), ("b", 99.2), ("c", 90.0))]
    together = [made(("a", "b"), 86.4), made(("a", "c"), 96.0), made(("b", "c"), 89.5)]
    (one,) = page_of(tmp_path, *alone, *together).by_data
    found = list(lost_without_another_domain(one.main))
    assert len(found) == 3
    assert "Leaving out b as well lowers the accuracy on a from 97.0 to 86.4" in found[0]
    assert "Leaving out a as well lowers the accuracy on b from 99.2 to 86.4" in found[1]
    assert "Leaving out c as well lowers the accuracy on b from 99.2 to 89.5" in found[2]
