from pathlib import Path

import pytest

from riskmatch.cli.sweep import Plan
from riskmatch.data import DATASETS
from riskmatch.experiments import EXPERIMENTS, Scope
from riskmatch.experiments.catalogue import name_of
from riskmatch.experiments.experiment import STAND_IN
from riskmatch.experiments.images import protocol
from riskmatch.report.published import EFFICIENCY, PER_DOMAIN
from riskmatch.runs.config import variant
from riskmatch.sweep.plan import Protocol, held_out, read

PAPERS = (
    *("causirl", "coral", "eqrm", "erm", "fish", "fishr", "groupdro", "iga", "irm", "mixup"),
    *("mldg", "mmd", "rdm", "vrex"),
)
RESULTS = Path(__file__).resolve().parents[2] / "results" / "pacs"


def plan(name, budget, data=None, **options):
    experiment = EXPERIMENTS[name]
    return experiment.plan(Scope(budget, data or experiment.data, **options))


def ids(runs):
    return {run.config.id for run in runs}


@pytest.mark.parametrize("data", ["pacs", "terraincognita"])
def test_laptop_plans_the_runs_of_a_sweep_on_frozen_features(data):
    words = f"DIR --data {data} --frozen --draws 5 --steps 1000 --eval-every 60".split()
    options = Plan.parse("sweep plan", words)
    swept = Protocol(
        data,
        PAPERS,
        tuple(held_out(DATASETS[data].domains)),
        int(options.draws),
        options.trials,
        choices={**options.choices, "model_options": {"frozen": options.frozen}},
    ).runs()
    assert len(swept) == 14 * 4 * 5 * 3
    assert ids(swept) == ids(plan(data, "laptop"))
    assert ids(swept) < ids(plan("table2", "laptop", (data, "vlcs")))


def test_laptop_plans_the_committed_runs():
    assert ids(plan("pacs", "laptop")) == ids(read(RESULTS / "frozen"))
    committed = {path.name for path in (RESULTS / "efficiency" / "runs").iterdir()}
    assert ids(plan("efficiency", "laptop", ("pacs",))) == committed


def test_committed_runs_of_the_figures_are_those_that_laptop_plans():
    committed = {path.name for path in (RESULTS.parent / "figures" / "runs").iterdir()}
    figures = ("fig1", "fig3a", "fig3b", "fig4a", "fig4b", "fig8")
    assert set().union(*(ids(plan(name, "laptop")) for name in figures)) == committed


@pytest.mark.parametrize(("data", "eval_every"), [("officehome", 60), ("domainnet", 200)])
def test_laptop_trains_a_fifth_of_the_default_steps(data, eval_every):
    lengths = {(run.config.steps, run.config.eval_every) for run in plan(data, "laptop")}
    assert lengths == {(1000, eval_every)}


def test_paper_fine_tunes_resnet50_with_20_draws_and_10_trials():
    runs = plan("domainnet", "paper", methods=("erm", "rdm"))
    assert len(runs) == 2 * 6 * 20 * 10
    assert {run.config.trial for run in runs} == set(range(10))
    assert {(run.config.model, run.config.steps, run.config.eval_every) for run in runs} == {
        ("timm:resnet50.tv_in1k", 5000, 1000)
    }
    assert not any(run.config.model_options for run in runs)
    assert {run.config.schedule for run in runs} == {"constant"}
    assert all(run.config.replacement and run.config.augment_validation for run in runs)
    assert [run.draw for run in runs] == sorted(run.draw for run in runs)


@pytest.mark.parametrize("name", ["table2", "table3", "efficiency", *PER_DOMAIN])
@pytest.mark.parametrize("budget", ["smoke", "laptop"])
def test_run_count_equals_the_number_of_planned_runs(name, budget):
    data = (STAND_IN,) if budget == "smoke" else EXPERIMENTS[name].data[:1]
    scope = Scope(budget, data, methods=("erm", "rdm") if name == "table2" else None)
    assert EXPERIMENTS[name].run_count(scope) == len(EXPERIMENTS[name].plan(scope))


def test_table_has_every_method_and_test_domain():
    assert {run.config.method for run in plan("vlcs", "laptop")} == set(PAPERS)
    whole = protocol("vlcs", Scope("paper", ("vlcs",)), ("erm",))
    assert set(whole.tests) == {(domain,) for domain in DATASETS["vlcs"].domains}


@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_efficiency_uses_default_hyper_parameters(budget):
    runs = plan("efficiency", budget, ("pacs",))
    assert {variant(run.config) for run in runs} == set(EFFICIENCY["pacs"])
    assert {run.draw for run in runs} == {0}
    assert len({run.config.batch_size for run in runs}) == 1
    matching = [run for run in runs if variant(run.config) == "rdm"]
    assert ids(matching) <= ids(plan("pacs", budget, methods=("rdm",)))  # trained once


@pytest.mark.parametrize("data", ["pacs", STAND_IN])
@pytest.mark.parametrize("method", ["erm", "rdm", "eqrm", "mldg"])
def test_every_method_runs_at_the_budget_smoke(data, method):
    for run in plan("pacs", "smoke", (data,), methods=(method,)):
        assert (run.config.steps, run.config.hparams.get("warmup", 10)) == (30, 10)


def test_tables_by_their_number_in_the_paper():
    assert [name_of(f"table{number}") for number in (1, 2, 3, 5, 6, 7, 8, 9, 10)] == [
        *("table1", "table2", "table3", "efficiency"),
        *("domainnet", "pacs", "vlcs", "officehome", "terraincognita"),
    ]
    assert name_of("fig2") == "fig2"
