"""The tables of the runs in results/ have the numbers of the tables committed beside them."""

import csv
import json
import runpy
from collections import Counter
from dataclasses import replace
from math import isfinite, log
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import t

from riskmatch.experiments.colored_mnist import grid_runs
from riskmatch.objectives import methods
from riskmatch.report.comparison import tables_of
from riskmatch.report.figures.training import ablation
from riskmatch.report.gains import ADJUSTED, GAIN, adjusted_gains
from riskmatch.runs import records
from riskmatch.runs.config import acts_from
from riskmatch.runs.findings import describe_fit
from riskmatch.runs.frame import results
from riskmatch.selection import choose, find_rule

RESULTS = Path(__file__).parents[2] / "results"
RULES = ("colored-mnist-best", "colored-mnist-last")


def numbers(table):
    """The rows of a table's CSV, without the names of columns, which may change."""
    return list(csv.reader(table.csv().splitlines()))[1:]


def lines(markdown):
    """The rows of a table in Markdown, without header and rule."""
    return [line for line in markdown.splitlines() if line.startswith("|")][2:]


def cells(markdown):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines(markdown)]


def test_frozen_pacs():
    (table,) = tables_of(RESULTS / "pacs/frozen")
    committed = list(csv.reader((RESULTS / "pacs/frozen/pacs.csv").read_text().splitlines()))[1:]
    assert numbers(table) == committed
    assert table.columns[-2:] == (GAIN, ADJUSTED) == ("gain over ERM", "adjusted p")


@pytest.mark.parametrize("unit", ["domains", "new-domain"])
@pytest.mark.parametrize(("file", "after"), [("train-val", False), ("after-warmup", True)])
def test_units_on_frozen_pacs(unit, file, after):
    (table,) = tables_of(RESULTS / "pacs/frozen", after_warmup=after, unit=unit)
    name = f"{file}-new-domain.md" if unit == "new-domain" else f"{file}.md"
    assert cells(table.markdown()) == cells((RESULTS / "pacs/frozen" / name).read_text())


def test_every_method_trains_a_layer_on_frozen_pacs():
    """Each run finishes, each penalty has a gradient, and what harms the fit is named."""
    folder = RESULTS / "methods"
    runs = [records.read(path.parent) for path in sorted(folder.glob("runs/*/records.jsonl"))]
    assert Counter(run.config.method for run in runs) == dict.fromkeys(methods(), 4)
    guessing, named, constant = set[str](), Counter[str](), Counter[str]()
    for run in runs:
        method, start, tests = run.config.method, acts_from(run.config), run.config.test_domains
        assert run.status == "done", method
        assert all(isfinite(e.loss) for e in run.evaluations), method
        last = run.evaluations[-1].scores
        risk = fmean(last[name]["train"].risk for name in last.keys() - {*tests})
        if risk > 0.95 * log(7):
            guessing.add(method)
            assert "harms the fit" in describe_fit(run)
        named[method] += describe_fit(run) is not None
        if run.config.hparams.get("weight"):
            first, *later = [e.gradients["penalty"] for e in run.evaluations if e.step >= start]
            assert first > 0, method
            constant[method] += later.count(0)
    assert guessing == {"iga", "ib-irm"}
    assert +named == dict.fromkeys(("iga", "ib-irm", "ib-erm", "irm"), 4)
    assert +constant == {"ib-erm": 18}
    (table,) = tables_of(folder)
    assert cells(table.markdown()) == cells((folder / "table.md").read_text())


def test_choices_on_frozen_pacs_that_precede_the_method():
    """The numbers of the results' README, and none where the choice is among later steps."""
    frame = results(RESULTS / "pacs/frozen")
    chosen = choose(frame)
    early = chosen[~chosen["acts"]].groupby("variant").size().to_dict()
    assert early == {"rdm": 7, "eqrm": 4, "irm": 2, "vrex": 1, "fishr": 1}
    later = choose(frame, after_warmup=True)
    assert len(later) == len(chosen) == 14 * 4 * 3
    start = frame.drop_duplicates("run").set_index("run")["acts_from"][later["run"]]
    assert ((start.to_numpy() == 0) | (later["step"].to_numpy() > start.to_numpy())).all()


@pytest.mark.parametrize("folder", ["pacs/frozen", "pacs/efficiency", "figures"])
def test_batches_of_committed_rdm_runs_on_pacs_are_equal(folder):
    """So that weighing samples or domains equally in the pool differs by rounding alone."""
    frame = results(RESULTS / folder)
    runs = frame[frame["method"] == "rdm"].drop_duplicates("run")
    assert len(runs) > 0
    smallest = 0.8 * 1670  # training images of Photo
    assert (runs["batch_size"] <= smallest).all()


def test_fine_tuned_pacs():
    (table,) = tables_of(RESULTS / "pacs/fine-tuned", unit="new-domain")
    assert cells(table.markdown()) == cells((RESULTS / "pacs/fine-tuned/table.md").read_text())
    (costs,) = tables_of(RESULTS / "pacs/fine-tuned", costs=True)
    assert cells(costs.markdown()) == cells((RESULTS / "pacs/fine-tuned/costs.md").read_text())


@pytest.mark.parametrize("name", ["fine-tuned-300", "no-variance"])
@pytest.mark.parametrize("after_warmup", [False, True])
def test_pacs_after_warmup(after_warmup, name):
    folder = RESULTS / "pacs" / name
    rule = replace(find_rule("train-val"), after_warmup=after_warmup)
    (table,) = tables_of(folder, rule)
    file = "after-warmup" if after_warmup else "table"
    assert cells(table.markdown()) == cells((folder / f"{file}.md").read_text())
    if name == "fine-tuned-300":
        (table,) = tables_of(folder, rule, unit="new-domain")
        assert cells(table.markdown()) == cells((folder / f"{file}-new-domain.md").read_text())


def accuracies(frame, variant, after_warmup=False):
    """Accuracy in per cent of the runs that train-val chooses, by test domain and trial."""
    chosen = choose(frame, after_warmup=after_warmup)
    chosen = chosen[chosen["variant"] == variant]
    return 100 * chosen.set_index(["test_domain", "trial"])["value"]


def by_domain(ours, theirs):
    """Paired differences, (domains, trials)."""
    return (ours - theirs).unstack("trial").to_numpy()


def gain(ours, theirs, unit="new-domain"):
    """Mean of the paired differences ± half of the interval of a unit, as text."""
    table = by_domain(ours, theirs)
    if unit == "new-domain":
        table, df = table.mean(1, keepdims=True), len(table) - 1
        variance = table.var(ddof=1)
    else:
        df = table.size - len(table)
        variance = table.var(axis=1, ddof=1).mean()
    half = t.ppf(0.975, df) * (variance / table.size) ** 0.5
    return f"{table.mean():+.1f} ± {half:.1f}".replace("-", "−").replace("−0.0", "0.0")


@pytest.mark.parametrize(
    ("variant", "other"), [("rdm", "erm-switch"), ("rdm variance", "rdm"), ("vrex", "erm")]
)
def test_differences_by_draw_on_fine_tuned_pacs(variant, other):
    folder = RESULTS / "pacs/fine-tuned-300"
    frame, text = results(folder), (folder / "README.md").read_text()
    draws = [frame[frame["lr"] == lr] for lr in (3e-4, 1e-4, 1e-3)]
    pairs = []
    for draw in draws:
        parts = (draw, draw[draw["step"] == 300])
        shown = [gain(accuracies(part, variant), accuracies(part, other)) for part in parts]
        pairs.append(" | ".join(shown))
    table = next(table for table in text.split("\n\n") if f" {pairs[0]} |" in table)
    assert all(f" {pair} |" in row for pair, row in zip(pairs, table.splitlines()[2:], strict=True))


def test_units_of_rdm_against_its_control_on_fine_tuned_pacs():
    """What the README says of it: the interval of a new domain excludes zero, alone."""
    folder = RESULTS / "pacs/fine-tuned-300"
    frame, text = results(folder), (folder / "README.md").read_text()
    own = {variant: accuracies(frame, variant) for variant in TITLES_OF_FINE_TUNED}
    control = own.pop("erm-switch")
    assert gain(own["rdm"], control) == "−1.9 ± 1.7"
    assert gain(own["rdm"], control, "domains") == "−1.9 ± 2.1"
    tables = [by_domain(values, control).tolist() for values in own.values()]
    p = [
        dict(zip(own, adjusted_gains(tables, unit), strict=True))["rdm"].p
        for unit in ("domains", "new-domain")
    ]
    assert f"{p[0]:.2f} and {p[1]:.2f}" in text


def test_averages_on_fine_tuned_pacs():
    folder = RESULTS / "pacs/fine-tuned-300"
    frame, rows = results(folder), cells((folder / "README.md").read_text())
    own = {variant: accuracies(frame, variant) for variant in TITLES_OF_FINE_TUNED}
    for variant, title in TITLES_OF_FINE_TUNED.items():
        against = [
            "" if name == variant else gain(own[variant], own[name])
            for name in ("erm", "erm-switch")
        ]
        assert [title, f"{fmean(own[variant]):.1f}", *against] in rows


PACS = ("art_painting", "cartoon", "photo", "sketch")
TITLES_OF_FINE_TUNED = {
    "erm": "ERM",
    "erm-switch": "ERM with RDM's switch",
    "coral": "CORAL",
    "vrex": "VREx",
    "rdm": "RDM",
    "rdm variance": "RDM with L",
}
WEIGHTS_OF_DRAW_2 = {"coral": 3, "vrex": 1, "rdm": 1.5, "rdm variance": 1.5}


def test_learning_rate_that_is_too_high_on_fine_tuned_pacs():
    folder = RESULTS / "pacs/fine-tuned-300"
    frame = results(folder)
    frame = frame[(frame["lr"] == 1e-3) & (frame["step"] == 300)]
    rows = cells((folder / "README.md").read_text())
    for variant, title in TITLES_OF_FINE_TUNED.items():
        weight = WEIGHTS_OF_DRAW_2.get(variant)
        titled = f"{title}, λ = {weight}" if weight else title
        own = frame[frame["variant"] == variant]
        training = [
            fmean(run[f"accuracy/train/{d}"] for d in PACS if d not in run["test_domains"])
            for _, run in own.iterrows()
        ]
        failed = sum(accuracy < 0.4 for accuracy in training)
        average = fmean(accuracies(frame, variant))
        assert [titled, f"{average:.1f}", f"{failed} of {len(own)}"] in rows


@pytest.mark.parametrize("after_warmup", [False, True])
def test_variance_regularisation_on_frozen_pacs(after_warmup):
    frames = [results(RESULTS / "pacs" / name) for name in ("frozen", "no-variance")]
    both = [accuracies(frame, "rdm", after_warmup) for frame in frames]
    row = [f"{fmean(each):.1f}" for each in both] + [gain(*both, "domains")]
    shown = cells((RESULTS / "pacs/no-variance/README.md").read_text())
    assert row == shown[after_warmup][1:]


def test_runs_without_variance_regularisation_differ_in_nothing_else():
    plans = []
    for name in ("frozen", "no-variance"):
        lines = (RESULTS / "pacs" / name / "plan.jsonl").read_text().splitlines()
        configs = [json.loads(line).get("config", {}) for line in lines]
        configs = [config for config in configs if config.get("method") == "rdm"]
        weights = [config["hparams"].pop("variance_weight") for config in configs]
        plans.append([json.dumps(config, sort_keys=True) for config in configs])
    assert sorted(plans[0]) == sorted(plans[1])
    assert weights == [0.0] * 60


def test_surrogate_is_below_the_variance_on_fine_tuned_pacs():
    folder = RESULTS / "pacs/fine-tuned-figures"
    panels = json.loads((folder / "fig3a.json").read_text())["panels"].values()
    text = (folder / "README.md").read_text()
    for worst, every in panels:
        assert len(worst["y"]) == 20
        assert all(low < high for low, high in zip(worst["y"], every["y"], strict=True))
        begin, end = (f"{every['y'][every['x'].index(step)]:.3f}" for step in (90, 300))
        assert begin in text
        assert end in text


def test_accuracy_during_training_on_fine_tuned_pacs():
    folder = RESULTS / "pacs/fine-tuned-figures"
    frame = results(folder)
    frame = frame[(frame["hparams/match"] != "variance") & (frame["step"] > 90)]
    wide = 100 * frame.pivot(index="step", columns="method", values="accuracy/train/sketch")
    ahead = (wide["rdm"] > wide["coral"]) & (wide["rdm"] > wide["fish"])
    means = {name: f"{wide[name].mean():.1f}" for name in wide}
    assert (ahead.sum(), len(ahead)) == (3, 14)
    assert means == {"rdm": "60.8", "coral": "62.1", "fish": "61.9"}


@pytest.mark.parametrize(("folder", "figure"), [("weight", "fig4a"), ("batch-size", "fig4b")])
def test_ablations_on_fine_tuned_pacs(folder, figure):
    figures = RESULTS / "pacs/fine-tuned-figures"
    frame = results(figures / folder, RESULTS / "pacs/fine-tuned-300")
    frame = frame[(frame["variant"] == "rdm") & (frame["lr"] == 3e-4) & (frame["trial"] == 0)]
    (curve,) = ablation(frame).panels["PACS"]
    (drawn,) = json.loads((figures / f"{figure}.json").read_text())["panels"]["PACS"]
    assert list(curve.x) == drawn["x"]
    assert list(curve.y) == pytest.approx(drawn["y"])
    text = (figures / "README.md").read_text()
    assert all(f"{accuracy:.1f}" in text for accuracy in curve.y)


def test_mean_risks_of_runs_on_fine_tuned_pacs():
    folder = RESULTS / "pacs/fine-tuned-300"
    panels = json.loads((folder / "risks.json").read_text())["panels"].values()
    shown = [row for row in cells((folder / "README.md").read_text()) if len(row) == 5][-3:]
    domains = ("photo", "cartoon", "art_painting", "sketch (test)")
    means = [[panel[name]["mean"] for name in domains] for panel in panels]
    assert [[f"{mean:.2f}" for mean in row] for row in means] == [row[1:] for row in shown]
    spreads = [f"{max(row[:3]) - min(row[:3]):.2f}" for row in means]
    assert spreads == ["0.47", "0.41", "0.36"]


def benchmark(name):
    return runpy.run_path(str(RESULTS.parent / "benchmarks" / f"{name}.py"))


def test_the_package_has_the_step_costs_of_the_record(monkeypatch):
    monkeypatch.syspath_prepend(RESULTS.parent / "benchmarks")
    script, record = benchmark("methods"), json.loads((RESULTS / "bench/methods.json").read_text())
    packaged = script["packaged"](record)
    assert json.loads(script["packaged_file"]().read_text("utf-8")) == packaged
    assert packaged["relative_to_erm"].keys() == methods().keys()


def test_selection_without_the_test_domain_on_colored_mnist():
    script, page = benchmark("rdm_settings"), (RESULTS / "colored-mnist/flat.md").read_text()
    for table in ("flat_table", "common_table", "settings_table"):
        assert script[table]().markdown() in page


def test_batches_with_replacement_on_colored_mnist():
    table = benchmark("rdm_settings")["bootstrap_table"]()
    assert table.markdown() in (RESULTS / "colored-mnist/bootstrap.md").read_text()


def test_kernel_weight_on_three_seeds_of_colored_mnist():
    table = benchmark("rdm_settings")["kernel_table"]()
    assert table.markdown() in (RESULTS / "colored-mnist/kernel.md").read_text()


def test_time_of_the_committed_runs():
    assert benchmark("costs")["text"]() == (RESULTS / "bench/costs.md").read_text()


def test_difficulty():
    study = benchmark("difficulty")
    table = study["table"](study["read"]())
    assert table.markdown() == (RESULTS / "difficulty/difficulty.md").read_text().strip()


@pytest.mark.parametrize("folder", ["airport", "month", "food"])
def test_real_tables(folder):
    after = replace(find_rule("train-val"), after_warmup=True)
    for rule, file in (("train-val", "table.md"), (after, "after-warmup.md")):
        (table,) = tables_of(RESULTS / "tables" / folder, rule, unit="new-domain")
        assert cells(table.markdown()) == cells((RESULTS / "tables" / folder / file).read_text())


def test_costs_on_pacs():
    (costs,) = tables_of(RESULTS / "pacs/efficiency", costs=True)
    committed = (RESULTS / "pacs/efficiency/efficiency.md").read_text()
    ours = {row[0]: (row[1], row[4]) for row in cells(costs.markdown())}
    assert {row[0]: (row[1], row[4]) for row in cells(committed)} == ours


TITLES = {
    "erm-switch": "ERM with RDM's switch",
    "rdm": "RDM (two moments)",
    "rdm-mmd": "RDM",
    "eqrm": "EQRM",
    "vrex": "VREx",
    "groupdro": "GroupDRO",
    "irm": "IRM (whole domains)",
}
"""Titles of the rows of Table 1 that are not the name in capitals."""


@pytest.mark.parametrize("rule", RULES)
def test_table1(rule):
    """Table 1 is what its rules choose, and the table of its runs has the same numbers."""
    rows = csv.DictReader((RESULTS / "colored-mnist/table1.csv").read_text().splitlines())
    table, oracle = tables_of(RESULTS / "colored-mnist", rule)
    ours = {row["method"]: row for row in table.to_json()["rows"]}
    (ours["oracle"],) = oracle.to_json()["rows"]
    compared = 0
    for row in rows:
        if row["selection"] != rule or not row["value"]:
            continue
        title = TITLES.get(row["method"], row["method"].upper())
        network = "ERM-initialised mlp" if row["initialisation"] == "erm" else "mlp"
        own = ours["oracle" if row["method"] == "oracle" else f"{title}, {network}"]
        for p in (f"{k / 10:g}" for k in range(11)):
            name = p if f"{p} mean" in own or p in own else f"test {p}"
            assert own[f"{name} mean"] == float(row[f"p = {p} mean"])
            assert own[f"{name} n"] == int(row[f"p = {p} n"])
            compared += 1
    assert compared == 19 * 11


def test_erm_on_colored_mnist_by_steps():
    frame = results(RESULTS / "colored-mnist")
    last = frame[(frame["method"] == "erm") & (frame["batch_size"] == 0)]
    last = last[last["step"] == last["steps"]].dropna(subset="accuracy/train/test 0.1")  # no oracle
    shown = {
        key: [f"{100 * fmean(own):.1f}", len(own)]
        for key, own in last.groupby(["pretrain", "steps"])["accuracy/train/0.9"]
    }
    assert shown == {
        (0, 400): ["13.4", 3],
        (0, 600): ["18.1", 1],
        (0, 1000): ["23.4", 1],
        (400, 600): ["18.3", 3],
        (400, 1000): ["24.5", 3],
    }


def test_oracle_on_colored_mnist_by_steps():
    frame = results(RESULTS / "colored-mnist")
    oracle = frame[frame["run"].isin(run.config.id for run in grid_runs("paper", ["oracle"], [0]))]
    last = oracle[oracle["step"] == oracle["steps"]].set_index("steps")
    domains = [column for column in last if column.startswith("accuracy/train/")]
    assert (100 * last["accuracy/train/0.9"]).round(1).to_dict() == {
        400: 71.6,
        600: 69.5,
        1000: 67.0,
    }
    assert (100 * last.loc[600, domains].min()).round(1) == 69.4


def test_irm_of_table1_does_not_count_runs_with_the_estimate_from_halves():
    frame = results(RESULTS / "colored-mnist")
    committed = frame[frame["method"] == "irm"]
    planned = {run.config.id for run in grid_runs("paper", ["irm"], [0, 1, 2])}
    whole = committed["variant"] == "irm whole"
    assert planned.issuperset(committed[whole]["run"])
    assert planned.isdisjoint(committed[~whole]["run"])
    assert not committed[~whole].empty


@pytest.mark.parametrize("rule", RULES)
def test_the_spread_of_table1(rule):
    frame = results(RESULTS / "colored-mnist")
    own = frame[(frame["variant"] == "rdm moments") & (frame["pretrain"] > 0)]
    rows = csv.DictReader((RESULTS / "colored-mnist/table1.csv").read_text().splitlines())
    (row,) = (
        row
        for row in rows
        if (row["selection"], row["method"], row["initialisation"]) == (rule, "rdm", "erm")
    )
    chosen = choose(own, rule)
    at = [100 * a for a in chosen[chosen["test_domain"] == "0.9"]["value"]]
    assert (f"{round(fmean(at), 6)}", f"{round(stdev(at), 6)}") == (
        row["p = 0.9 mean"],
        row["p = 0.9 sd"],
    )


@pytest.mark.parametrize(
    ("folder", "name"), [("digits", "ColoredDigits"), ("pacs", "PACS, frozen")]
)
def test_averages_differ_in_the_average_alone(folder, name):
    """And the gains at the last step are those of the table."""
    frame = results(RESULTS / "averaging" / folder).sort_values("step")
    last = frame.drop_duplicates("run", keep="last").copy()
    pairs = ["method", "test_domains", "trial"]
    settings = ["lr", "batch_size", "steps", "eval_every", "seed", "acts_from", "hparams/weight"]
    assert (last.groupby(pairs)[settings].nunique(dropna=False) == 1).all(axis=None)
    last["accuracy"] = [
        row[f"accuracy/train/{row['test_domains'][0]}"] for _, row in last.iterrows()
    ]
    rows = cells((RESULTS / "averaging/averaging.md").read_text())
    for method, own in last.groupby("method"):
        wide = 100 * own.pivot(index=pairs, columns="average", values="accuracy")
        shown = {r[3]: r[-2:] for r in rows if r[:3] == [name, method.upper(), "last"]}
        units = {"these domains": "domains", "a new domain": "new-domain"}
        assert len(shown) == {"digits": 1, "pacs": 2}[folder]
        for unit, found in shown.items():
            assert found == [gain(wide[a], wide["none"], units[unit]) for a in ("swa", "swad")]
