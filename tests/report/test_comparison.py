"""Tables over records made by hand: numbers by the reference's formula, gaps by name."""

import csv
import io
import math
import subprocess
import sys

import numpy as np
import pytest
from made_records import evaluation, run
from scipy import stats

from riskmatch.report.comparison import overview_table, per_domain_table
from riskmatch.report.difference import paired, t_point
from riskmatch.report.efficiency import efficiency_table
from riskmatch.report.tables import Trials

ERM = {("a", 0): 60.0, ("a", 1): 61.5, ("b", 0): 70.0, ("b", 1): 73.0}
RDM = {("a", 0): 62.0, ("a", 1): 62.5, ("b", 0): 70.5, ("b", 1): 76.0}
DRAWS = (1, 2)


def sweep(method, accuracies, fixed=False, data="toy", **others):
    """Two draws per case: the first has the better validation, and the given accuracy."""
    return [
        run(
            domain,
            evaluation(10, **{d: (a if d == domain else 1, 50 - draw) for d in "ab"}),
            evaluation(20, **dict.fromkeys("ab", (0, 10))),
            data=data, method=method, trial=trial, draw=draw if fixed else (draw, trial), **others,
        )
        for (domain, trial), a in accuracies.items()
        for draw in DRAWS
    ]  # fmt: skip


RUNS = sweep("erm", ERM) + sweep("rdm", RDM)


def cells(table, label):
    (row,) = (row for row in table.rows if row[0] == label)
    return [str(cell) for cell in row[1:]]


def test_cells_are_the_mean_and_standard_error_of_the_reference():
    table = per_domain_table(RUNS, "toy")
    for method, accuracies in (("ERM", ERM), ("RDM", RDM)):
        for cell, domain in zip(cells(table, method), "ab", strict=False):
            values = [v for (d, _), v in accuracies.items() if d == domain]
            error = np.std(np.array(values) / np.sqrt(len(values)))
            assert cell == f"{np.mean(values):.1f} ± {error:.1f}"
    assert cells(table, "ERM")[2:] == ["66.125", "None"]
    assert table.columns == ("method", "a", "b", "average", "− ERM")


def test_the_difference_from_erm_is_the_paired_t_interval():
    differences = [RDM[key] - ERM[key] for key in ERM]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(differences), scale=stats.sem(differences))
    expected = f"+{(low + high) / 2:.1f} ± {(high - low) / 2:.1f}"
    assert cells(per_domain_table(RUNS, "toy"), "RDM")[-1] == expected
    assert cells(overview_table(RUNS), "RDM")[-1] == expected


def test_only_what_both_have_is_paired():
    found = paired({"x": 3.0, "y": 9.0}, {"x": 1.0, "z": 0.0})
    assert (found.mean, found.half, found.pairs) == (2.0, None, 1)
    assert paired({"x": 1.0}, {}) is None


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 31, 400])
def test_t_points_are_those_of_scipy(freedom):
    assert t_point(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_the_overview_averages_each_trial_over_domains_first():
    table = overview_table(RUNS + sweep("erm", ERM, data="zoo"))
    trials = [65.0, 67.25]
    error = np.std(trials) / math.sqrt(2)
    assert cells(table, "ERM")[:2] == [f"{np.mean(trials):.1f} ± {error:.1f}"] * 2
    assert cells(table, "ERM")[2] == "66.125"
    assert cells(table, "RDM")[1:3] == ["None", "None"]


def test_captions_say_rule_draws_and_trials():
    caption = per_domain_table(RUNS, "toy", "test-val").caption
    assert "Selection test-val: the best of the validation accuracy on the test domain" in caption
    assert "2 draws in each of 2 trials; trials draw hyper-parameters anew." in caption
    assert "Network: mlp." in caption
    assert "Missing" not in caption


def test_replicates_are_told_from_trials_that_redraw():
    fixed = sweep("rdm", RDM, fixed=True)
    assert "trials are replicates with the same hyper-parameters." in (
        per_domain_table(fixed, "toy").caption
    )
    assert (
        "trials draw hyper-parameters anew (ERM); trials are replicates with the same "
        "hyper-parameters (RDM)"
    ) in per_domain_table(sweep("erm", ERM) + fixed, "toy").caption
    assert (
        "2 draws, one trial."
        in per_domain_table([r for r in RUNS if r.config.trial == 0], "toy").caption
    )


def of(method, domain, trial):
    return [
        r
        for r in RUNS
        if (r.config.method, r.config.test_domains, r.config.trial) == (method, (domain,), trial)
    ]


def without(*gone):
    ids = {r.config.id for r in gone}
    return [r for r in RUNS if r.config.id not in ids]


def test_missing_runs_are_named_from_the_plan():
    plan = [r.config for r in RUNS]
    one = per_domain_table(without(of("rdm", "b", 1)[0]), "toy", plan=plan)
    assert "Missing: RDM on b, trial 1: 1 of 2 runs." in one.caption
    half = per_domain_table(without(*of("rdm", "b", 0), *of("rdm", "b", 1)), "toy", plan=plan)
    assert "Missing: RDM on b: all 4 runs." in half.caption
    assert cells(half, "RDM")[1:3] == ["None", "None"]
    none = per_domain_table(sweep("erm", ERM), "toy", plan=plan)
    assert "Missing: RDM: all 8 runs." in none.caption
    assert cells(none, "RDM")[0] == "None"
    assert "Missing: ERM: all 8 runs; RDM: all 8 runs." in (
        per_domain_table([], "toy", plan=plan).caption
    )


def test_missing_runs_are_seen_without_a_plan_too():
    table = per_domain_table(without(*of("erm", "a", 0), of("rdm", "b", 1)[0]), "toy")
    assert (
        "Missing: ERM on a, trial 0: 2 of 2 runs; RDM on b, trial 1: 1 of 2 runs." in table.caption
    )


def test_runs_outside_the_plan_are_left_out():
    better = sweep("rdm", dict.fromkeys(RDM, 99.0), dropout=0.5)
    plan = [r.config for r in RUNS]
    assert per_domain_table(RUNS + better, "toy", plan=plan) == per_domain_table(
        RUNS, "toy", plan=plan
    )


def test_a_trial_without_every_domain_has_no_average():
    table = overview_table(without(*of("erm", "a", 0)))
    assert cells(table, "ERM")[0] == str(Trials((67.25,)))


def test_unfinished_runs_are_named():
    unfinished = sweep("erm", ERM, status="unfinished")
    assert "Not finished, and counted with the steps they have: ERM on a, trial 0 (2 runs);" in (
        per_domain_table(unfinished, "toy").caption
    )


def test_leave_one_out_names_what_it_cannot_choose():
    caption = per_domain_table(RUNS, "toy", "leave-one-out").caption
    assert "Nothing to choose from: ERM on a, trial 0; ERM on a, trial 1;" in caption


def test_networks_and_variants_have_rows_of_their_own():
    runs = RUNS + sweep("rdm", RDM, model="cnn")
    assert [row[0] for row in per_domain_table(runs, "toy").rows] == [
        "ERM, mlp", "RDM, cnn", "RDM, mlp"]  # fmt: skip
    assert [row[0] for row in overview_table(runs).rows] == ["ERM, mlp", "RDM, cnn", "RDM, mlp"]
    assert cells(per_domain_table(runs, "toy"), "RDM, cnn")[-1] == "None"  # no ERM to compare with


def on_pacs():
    names = {"a": "art_painting", "b": "cartoon"}
    scores = {names[d]: (80, 50) for d in "ab"}
    return [run([name], evaluation(1, **scores), data="pacs") for name in names.values()]


def test_the_paper_stands_below_ours_and_its_other_methods_too():
    table = per_domain_table(on_pacs(), "pacs")
    labels = [row[0] for row in table.rows]
    assert labels[:3] == ["ERM", "ERM (paper)", "Mixup (paper)"]
    assert labels[-1] == "RDM (paper)"
    assert cells(table, "RDM (paper)") == ["88.4 ± 0.2", "81.3 ± 1.6", "None"]
    assert "WACV 2024" in table.caption
    assert cells(overview_table(on_pacs()), "RDM (paper)") == ["87.2 ± 0.7", "None"]


def test_csv_has_the_numbers_of_both():
    rows = list(csv.DictReader(io.StringIO(per_domain_table(on_pacs(), "pacs").csv())))
    assert rows[0]["cartoon mean"] == "80.0"
    assert (rows[1]["cartoon mean"], rows[1]["cartoon se"]) == ("80.8", "0.6")


def test_efficiency_is_of_training_steps_and_peak_memory():
    table = efficiency_table([run(["art_painting"],
        evaluation(100, 0.5, 2**30, art_painting=(80, 0), photo=(0, 1)),
        evaluation(300, 0.25, 2**31, art_painting=(80, 0), photo=(0, 1)),
        data="pacs", method="fish")], "pacs")  # fmt: skip
    assert table.rows[0] == ("Fish", 100, "2.00", 80.0)
    assert table.rows[1] == ("Fish (paper)", 7566, "7.97", 85.5)
    assert table.rows[-1] == ("RDM (paper)", 4214, "21.71", 87.2)


def test_tables_need_no_torch():
    code = "import sys, riskmatch.report.comparison; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
