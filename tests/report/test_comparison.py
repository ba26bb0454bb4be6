"""Tables of records made by hand: numbers by the formula of DomainBed."""

import csv
import io
import math
import subprocess
import sys

import numpy as np
import pytest
from made_records import evaluation, run
from made_sweep import (
    ERM,
    RDM,
    RUNS,
    cells,
    efficiency_table,
    half_of_these_domains,
    left_out,
    overview_table,
    per_domain_table,
    sweep,
)
from scipy import stats

from riskmatch.report.comparison import tables_of
from riskmatch.report.tables import Gain
from riskmatch.runs.frame import results_of


def test_cells_are_the_mean_and_standard_error_of_domainbed():
    table = per_domain_table(RUNS, "toy")
    for method, accuracies in (("ERM", ERM), ("RDM", RDM)):
        for cell, domain in zip(cells(table, method), "ab", strict=False):
            values = [v for (d, _), v in accuracies.items() if d == domain]
            error = np.std(np.array(values) / np.sqrt(len(values)))
            assert cell == f"{np.mean(values):.1f} ± {error:.1f}"
    assert cells(table, "ERM")[2:] == ["66.125", "None", "None"]
    assert table.columns == ("method", "a", "b", "average", "gain over ERM", "adjusted p")


DIFFERENCES = [[RDM[d, trial] - ERM[d, trial] for trial in (0, 1)] for d in "ab"]


def test_the_gain_over_erm_has_the_interval_of_its_unit():
    mean, means = np.mean(DIFFERENCES), np.mean(DIFFERENCES, axis=1)
    halves = {
        "domains": half_of_these_domains(DIFFERENCES),
        "new-domain": stats.t.ppf(0.975, 1) * stats.sem(means),
    }
    words = {"domains": "these domains", "new-domain": "a new domain"}
    for unit, half in halves.items():
        for table in (per_domain_table(RUNS, "toy", unit=unit), overview_table(RUNS, unit=unit)):
            *_, gain, p = cells(table, "RDM")
            assert gain == f"+{mean:.1f} ± {half:.1f}"
            df = {"domains": 2, "new-domain": 1}[unit]
            t = mean / (half / stats.t.ppf(0.975, df))
            assert p == f"{2 * stats.t.sf(t, df):.3f}"
            assert f"unit: {words[unit]}" in table.caption
            assert f"gain over ERM 95 % ± of {words[unit]}" in table.csv()


def test_two_units_of_one_sweep_do_not_agree_on_a_gain_that_differs_between_domains():
    """12 and 0 points, each to 0.1: certain for these domains, uncertain for a new one."""
    rdm = {("a", 0): 72.0, ("a", 1): 73.6, ("b", 0): 70.0, ("b", 1): 73.1}
    tables = {u: tables_of(results_of(sweep("erm", ERM) + sweep("rdm", rdm)), unit=u)[0]
              for u in ("domains", "new-domain")}  # fmt: skip
    p = {unit: table.to_json()["rows"][1]["adjusted p"] for unit, table in tables.items()}
    assert p["domains"] < 0.001 < 0.3 < p["new-domain"]
    assert "2 domains are few" in tables["new-domain"].caption
    assert "no adjusted p can fall below 0.5" in tables["new-domain"].caption


def test_p_values_are_adjusted_over_all_methods():
    (alone,) = tables_of(results_of(RUNS))
    rng, others = np.random.default_rng(0), []
    for method in ("vrex", "coral", "irm", "eqrm"):
        others += sweep(method, {place: v + rng.normal(0, 3) for place, v in ERM.items()})
    (several,) = tables_of(results_of(RUNS + others))
    single, adjusted = (float(cells(table, "RDM")[-1]) for table in (alone, several))
    assert 1.3 * single < adjusted <= 5 * single
    assert "5 comparisons" in several.caption
    lost = ("irm", ("b",), 1)
    missing = [
        r for r in others if (r.config.method, r.config.test_domains, r.config.trial) != lost
    ]
    (holm,) = tables_of(results_of(RUNS + missing))
    assert adjusted < float(cells(holm, "RDM")[-1]) <= 5 * single + 0.003  # single is rounded


def test_one_trial_gives_an_interval_of_a_new_domain_alone():
    runs = [r for r in RUNS if r.config.trial == 0]
    table = per_domain_table(runs, "toy")
    assert table.columns[-1] == "gain over ERM"
    assert cells(table, "RDM")[-1] == "+1.2"
    assert "No interval of these domains: every test domain has one trial" in table.caption
    assert " ± " in cells(per_domain_table(runs, "toy", unit="new-domain"), "RDM")[-2]
    with pytest.raises(ValueError, match=r"unit 'domain'.*'new-domain'"):
        per_domain_table(runs, "toy", unit="domain")


def test_domains_that_a_run_leaves_out_together_are_one_domain():
    """As one run is behind their values, they share its chance."""
    runs = [
        run("ab", evaluation(1, a=(a, 1), b=(a + noise, 1), c=(1, 50)), method=method, trial=trial)
        for method, noise, values in (("erm", 0.0, (60, 60, 60)), ("rdm", 0.2, (61, 62, 63)))
        for trial, a in enumerate(values)
    ]
    half = stats.t.ppf(0.975, 2) * stats.sem([1.1, 2.1, 3.1])
    assert cells(per_domain_table(runs, "toy"), "RDM")[-2] == f"+2.1 ± {half:.1f}"
    alone = per_domain_table(runs, "toy", unit="new-domain")
    assert "No interval of a new domain: there is one test domain" in alone.caption


def test_only_test_domains_and_trials_of_both_methods_are_paired():
    rdm = {("a", 0): RDM["a", 0], ("b", 1): RDM["b", 1]}
    erm = {("a", 0): ERM["a", 0], ("b", 0): ERM["b", 0]}
    (gain,) = (
        row[-1]
        for row in per_domain_table(sweep("erm", erm) + sweep("rdm", rdm), "toy").rows
        if row[-1]
    )
    assert gain.values == pytest.approx([RDM["a", 0] - ERM["a", 0]])
    assert gain.error is None
    none = per_domain_table(sweep("erm", erm) + sweep("rdm", {("b", 1): 50}), "toy")
    assert "gain over ERM" not in none.columns


@pytest.mark.parametrize("n", [2, 3, 5, 8, 31, 400])
def test_the_interval_of_a_gain_is_that_of_scipy_stats(n):
    values = np.random.default_rng(n).normal(size=n)
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    gain = Gain(tuple(values))
    assert (gain.mean - gain.error, gain.mean + gain.error) == pytest.approx((low, high))


def test_the_overview_averages_each_trial_over_domains_first():
    table = overview_table(RUNS + sweep("erm", ERM, data="zoo"))
    trials = [65.0, 67.25]
    error = np.std(trials) / math.sqrt(2)
    assert cells(table, "ERM")[:2] == [f"{np.mean(trials):.1f} ± {error:.1f}"] * 2
    assert cells(table, "ERM")[2] == "66.125"
    assert cells(table, "RDM")[1:3] == ["None", "None"]


def test_the_overview_comes_after_the_tables_of_data_sets_and_leaves_out_other_options():
    other = sweep("erm", ERM, data_options={"p": 1})
    runs = RUNS + sweep("erm", ERM, data="zoo") + other
    titles = [table.caption.partition(":")[0] for table in tables_of(results_of(runs))]
    assert titles[:3] == ["toy", "toy, p 1", "zoo"]
    overview = tables_of(results_of(runs))[-1]
    assert overview.columns[:3] == ("method", "toy", "zoo")
    assert len(tables_of(results_of(RUNS))) == len(tables_of(results_of(RUNS + other))) - 1
    costs = tables_of(results_of(runs), costs=True)
    assert [table.columns[1] for table in costs] == ["batch size"] * 3


def test_the_overview_has_one_row_for_a_method_whatever_the_network_of_each_data_set():
    runs = RUNS + sweep("erm", ERM, data="zoo", model="cnn")
    table = overview_table(runs)
    assert [row[0] for row in table.rows] == ["ERM", "RDM"]
    assert cells(table, "ERM")[2] == "66.125"
    assert "No runs: RDM on zoo." in table.caption


def test_runs_outside_the_plan_are_left_out():
    better = sweep("rdm", dict.fromkeys(RDM, 99.0), dropout=0.5)
    plan = [r.config for r in RUNS]
    assert per_domain_table(RUNS + better, "toy", plan=plan) == per_domain_table(
        RUNS, "toy", plan=plan
    )


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


def test_rows_of_the_paper_are_below_ours_and_those_of_other_methods_too():
    table = per_domain_table(on_pacs(), "pacs")
    labels = [row[0] for row in table.rows]
    assert labels[:3] == ["ERM", "ERM (paper)", "Mixup (paper)"]
    assert labels[-1] == "RDM (paper)"
    assert cells(table, "RDM (paper)") == ["88.4 ± 0.2", "81.3 ± 1.6", "None"]
    assert "WACV 2024" in table.caption
    assert cells(overview_table(on_pacs()), "RDM (paper)") == ["87.2 ± 0.7", "None"]


def test_averages_over_some_domains_are_not_shown_beside_those_of_the_paper():
    assert cells(per_domain_table(on_pacs(), "pacs"), "Fish (paper)")[-1] == "None"
    assert "PACS (art_painting, cartoon alone), selection" in overview_table(on_pacs()).caption


def test_csv_has_six_decimals():
    rows = list(csv.DictReader(io.StringIO(per_domain_table(RUNS, "toy").csv())))
    assert (rows[1]["gain over ERM mean"], rows[1]["gain over ERM n"]) == ("1.625", "4")
    half = half_of_these_domains(DIFFERENCES)
    assert float(rows[1]["gain over ERM 95 % ± of these domains"]) == pytest.approx(half, abs=1e-6)
    quick = [run("a", evaluation(3, 0.123456, 2**28, a=(80, 1), b=(0, 1)))]
    (row,) = csv.DictReader(io.StringIO(efficiency_table(quick, "toy").csv()))
    assert (row["training (s)"], row["memory (GiB)"]) == ("0.370368", "0.25")
    assert cells(efficiency_table(quick, "toy"), "ERM")[1] == "0.4"


@pytest.mark.parametrize("rule", ["train-val", "leave-one-out"])
def test_latex_is_ascii(rule):
    for table in (per_domain_table(RUNS, "toy", rule), efficiency_table(on_pacs(), "pacs", rule)):
        assert table.latex().isascii()


def test_csv_has_the_numbers_of_both():
    rows = list(csv.DictReader(io.StringIO(per_domain_table(on_pacs(), "pacs").csv())))
    assert rows[0]["cartoon mean"] == "80.0"
    assert (rows[1]["cartoon mean"], rows[1]["cartoon se"]) == ("80.8", "0.6")


def test_costs_are_the_time_of_training_steps_and_the_peak_memory():
    table = efficiency_table([run(["art_painting"],
        evaluation(100, 0.5, 2**30, art_painting=(80, 0), photo=(0, 1)),
        evaluation(300, 0.25, 2**31, art_painting=(80, 0), photo=(0, 1)),
        data="pacs", method="fish")], "pacs")  # fmt: skip
    assert cells(table, "Fish") == ["32", "100", "2.00", "80.0"]
    assert cells(table, "Fish (paper)") == ["None", "7566", "7.97", "85.5"]
    assert cells(table, "RDM (paper)") == ["None", "4214", "21.71", "87.2"]


def test_costs_name_batch_sizes_and_refuse_those_of_a_search():
    seen = evaluation(10, 1.0, a=(80, 1), b=(0, 1))
    erm, rdm = run("a", seen), run("a", seen, method="rdm", batch_size=88)
    table = efficiency_table([erm, rdm], "toy")
    assert [cells(table, name)[0] for name in ("ERM", "RDM")] == ["32", "88"]
    assert "only of rows with the same one" in table.caption
    equal = efficiency_table([erm, run("a", seen, method="rdm")], "toy")
    assert "ifferent batch sizes" not in equal.caption
    with pytest.raises(
        ValueError, match=r"RDM on toy have batch sizes from 16 to 88.*--equal-batch"
    ):
        efficiency_table([erm, rdm, run("a", seen, method="rdm", batch_size=16, draw=2)], "toy")


def test_costs_are_those_of_finished_runs_with_one_test_domain():
    seen = evaluation(10, 1.0, a=(80, 1), b=(0, 1))
    usual, pair = run("a", seen), run("ab", evaluation(10, 0.1, a=(80, 1), b=(0, 1)))
    begun = run("a", evaluation(1, 1.0, a=(80, 1), b=(0, 1)), draw=2, status="unfinished")
    assert cells(efficiency_table([usual, pair, begun], "toy"), "ERM")[1] == "10"


def test_tables_need_no_torch():
    code = "import sys, riskmatch.report.comparison; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_leave_one_out_without_its_runs_names_the_cure():
    alone = left_out("a", "b")
    together = run(("b", "c"), evaluation(1, **dict.fromkeys("abc", (60, 50))))
    for runs in (alone, [*left_out("a"), together]):
        with pytest.raises(ValueError, match="riskmatch sweep plan --leave-two-out"):
            tables_of(results_of(runs), "leave-one-out")
