from pathlib import Path

import pytest
import torch

from riskmatch.cli.parser import parse
from riskmatch.cli.sweep_plan import Plan, _runs
from riskmatch.data import DATASETS, Domain, DomainSet
from riskmatch.experiments.catalogue import EXPERIMENTS, NUMBERS
from riskmatch.experiments.experiment import STAND_IN, Request
from riskmatch.experiments.on_images import comparison
from riskmatch.objectives import methods
from riskmatch.report.published import EFFICIENCY, PER_DOMAIN
from riskmatch.runs.config import variant
from riskmatch.sweep.plan import read

ON_FILE = Path(__file__).resolve().parents[2] / "results" / "pacs"


def plan(name, budget, data=None, **options):
    experiment = EXPERIMENTS[name]
    return experiment.plan(Request(budget, data or experiment.data, **options))


def ids(runs):
    return {run.config.id for run in runs}


def empty(name):
    domains = (Domain(d, torch.zeros(1, 1), torch.zeros(1).long()) for d in DATASETS[name].domains)
    return DomainSet(name, tuple(domains), DATASETS[name].classes)


@pytest.mark.parametrize("data", ["pacs", "terraincognita"])
def test_a_sweep_of_frozen_features_is_the_laptops_table(data):
    words = f"DIR --data {data} --frozen --draws 5 --steps 1000 --eval-every 60".split()
    swept = _runs(parse(Plan, "sweep plan", words), empty(data))
    assert len(swept) == 14 * 4 * 5 * 3
    assert ids(swept) == ids(plan(data, "laptop"))
    assert ids(swept) < ids(plan("table2", "laptop", (data, "vlcs")))


def test_the_laptop_plans_the_runs_on_file():
    assert ids(plan("pacs", "laptop")) == ids(read(ON_FILE / "frozen"))
    found = {path.name for path in (ON_FILE / "efficiency" / "runs").iterdir()}
    assert ids(plan("efficiency", "laptop", ("pacs",))) == found


@pytest.mark.parametrize(("data", "eval_every"), [("officehome", 60), ("domainnet", 200)])
def test_the_laptop_trains_a_fifth_of_the_usual_steps(data, eval_every):
    lengths = {(run.config.steps, run.config.eval_every) for run in plan(data, "laptop")}
    assert lengths == {(1000, eval_every)}


def test_the_paper_trains_resnets_whole_on_every_split():
    runs = plan("domainnet", "paper", methods=("erm", "rdm"))
    assert len(runs) == 2 * 6 * 20 * 10
    assert {run.config.trial for run in runs} == set(range(10))
    assert {(run.config.model, run.config.steps, run.config.eval_every) for run in runs} == {
        ("timm:resnet50.tv_in1k", 5000, 1000)
    }
    assert not any(run.config.model_options for run in runs)
    schedules = {(run.config.method, run.config.schedule) for run in runs}
    assert schedules == {("erm", "constant"), ("rdm", "cosine-after-warmup")}
    assert [run.draw for run in runs] == sorted(run.draw for run in runs)


@pytest.mark.parametrize("name", ["table2", "table3", "efficiency", *PER_DOMAIN])
@pytest.mark.parametrize("budget", ["smoke", "laptop"])
def test_the_list_counts_what_is_planned(name, budget):
    data = (STAND_IN,) if budget == "smoke" else EXPERIMENTS[name].data[:1]
    request = Request(budget, data, methods=("erm", "rdm") if name == "table2" else None)
    assert EXPERIMENTS[name].runs(request) == len(EXPERIMENTS[name].plan(request))


def test_the_whole_table_has_every_method():
    assert {run.config.method for run in plan("vlcs", "laptop")} == set(methods())
    (whole,) = comparison("vlcs", "paper", ("erm",))
    assert set(whole.tests) == {(domain,) for domain in DATASETS["vlcs"].domains}


@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_costs_are_those_of_the_default_hyper_parameters(budget):
    runs = plan("efficiency", budget, ("pacs",))
    assert {variant(run.config) for run in runs} == set(EFFICIENCY["pacs"])
    assert {run.draw for run in runs} == {0}
    others = [run for run in runs if variant(run.config) != "rdm variance"]
    searched = ids(plan("pacs", budget, methods=("fish", "coral", "rdm")))
    assert ids(others) <= searched  # nothing is trained twice
    assert not (ids(runs) - ids(others)) & searched


@pytest.mark.parametrize("data", ["pacs", STAND_IN])
@pytest.mark.parametrize("one", ["erm", "rdm", "eqrm", "mldg"])
def test_any_method_can_be_tried_at_the_smallest_budget(data, one):
    for run in plan("pacs", "smoke", (data,), methods=(one,)):
        assert (run.config.steps, run.config.hparams.get("warmup", 10)) == (30, 10)


def test_tables_are_also_found_by_their_numbers():
    assert [NUMBERS[f"table{number}"] for number in (1, 2, 3, 5, 6, 7, 8, 9, 10)] == [
        *("table1", "table2", "table3", "efficiency"),
        *("domainnet", "pacs", "vlcs", "officehome", "terraincognita"),
    ]
    assert NUMBERS["fig2"] == "fig2"
