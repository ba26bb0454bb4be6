from dataclasses import fields

import pytest

from riskmatch.data.colored_mnist import domain_names
from riskmatch.experiments.rows import METHODS
from riskmatch.experiments.table1 import SEEDS, TEST_P, plan
from riskmatch.objectives import methods
from riskmatch.report.published.colored_mnist import TABLE1


def ids(runs):
    return [run.config.id for run in runs]


def test_the_paper_has_every_point_of_every_grid_from_both_initialisations_and_ten_seeds():
    runs = plan("paper")
    assert len(runs) == 10 * (9 * 2 * 5 + 3 + 2 + 3)
    assert len(set(ids(runs))) == len(runs)


def test_smaller_budgets_take_one_point_and_fewer_seeds():
    assert len(plan("laptop")) == 3 * (10 * 2 + 1)
    assert len(plan("laptop", ["mmd"])) == 3 * 2
    assert len(plan("smoke")) == 10 * 2 + 1


def test_a_laptops_runs_are_some_of_the_papers():
    assert set(ids(plan("laptop"))) < set(ids(plan("paper")))


def test_cuts_cut_and_nothing_else():
    runs = plan("paper", ["rdm", "erm"], [3, 1], ["erm"])
    assert [(run.method, run.init, run.value, run.config.seed) for run in runs] == [
        (method, init, value, seed)
        for seed in (3, 1)
        for method, init, values in (
            ("erm", "erm", (600, 1000)),
            ("rdm", "erm", (500, 1000, 2500, 5000, 10000)),
        )
        for value in values
    ]
    assert set(ids(runs)) <= set(ids(plan("paper")))


@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_one_erm_phase_per_seed_serves_every_method_on_whole_domains(budget):
    runs = [run for run in plan(budget) if run.init == "erm"]
    phases = {run.config.erm_phase().id for run in runs if run.method != "mmd"}
    assert len(phases) == len(SEEDS[budget])
    of_mmd = {run.config.erm_phase().id for run in runs if run.method == "mmd"}
    assert len(of_mmd - phases) == len(SEEDS[budget])  # which takes batches


def test_the_erm_phase_is_the_shortest_erm():
    runs = plan("paper")
    whole = [run.config for run in runs if run.init == "erm" and run.method != "mmd"]
    phases = {config.erm_phase().id for config in whole}
    assert phases == {run.config.id for run in runs if (run.method, run.value) == ("erm", 400)}


def test_every_run_is_one_that_the_data_set_and_the_method_know():
    for run in plan("paper", seeds=[0]):
        options = run.config.data_options
        names = domain_names(options["p"], options["test_p"])
        assert run.config.test_domains == names[2:]
        own = {item.name for item in fields(methods()[run.config.method])}
        assert set(run.config.hparams) <= own
        assert len(TEST_P) == 11


def test_the_usual_value_is_on_the_grid():
    assert all(row.usual in row.grid for row in METHODS.values())


def test_the_paper_has_a_number_for_every_row_but_the_kernels():
    rows = {(name, init) for name, row in METHODS.items() for init in row.inits}
    assert rows - set(TABLE1) == {("rdm-mmd", "random"), ("rdm-mmd", "erm")}
    assert set(TABLE1) <= rows


def test_ids_do_not_change_from_one_version_to_the_next():
    found = {run.title: run.config.id for run in plan("paper", ["rdm", "oracle"], [0], ["erm"])}
    assert found["RDM, two moments from ERM, λ = 5000, seed 0"] == "7eb97c548a7e700a"
    assert found["Oracle from random weights, steps = 600, seed 0"] == "c6bec10e9b824b8f"
