import hashlib
from dataclasses import fields, replace

import pytest

from riskmatch.contract import OptimSpec
from riskmatch.data.colored_mnist import domain_names
from riskmatch.engine.assemble import objective
from riskmatch.experiments.colored_mnist import METHODS, SEEDS, TEST_P, grid_runs
from riskmatch.objectives import methods
from riskmatch.report.published import TABLE1
from riskmatch.runs.config import variant

LATER = ("irm", "erm-switch")
"""Methods whose runs were changed or added after the first records were committed."""


def ids(runs):
    return [run.config.id for run in runs]


def test_paper_budget_has_whole_grids_both_initialisations_and_ten_seeds():
    runs = grid_runs("paper")
    assert len(runs) == 10 * (9 * 2 * 5 + 3 + 2 + 1 + 3)
    assert len(set(ids(runs))) == len(runs)


def test_smaller_budgets_have_one_value_per_grid_and_fewer_seeds():
    assert len(grid_runs("laptop")) == 3 * (10 * 2 + 1 + 1)
    assert len(grid_runs("laptop", ["mmd"])) == 3 * 2
    assert len(grid_runs("smoke")) == 10 * 2 + 1 + 1


def test_laptop_runs_are_a_subset_of_paper_runs():
    assert set(ids(grid_runs("laptop"))) < set(ids(grid_runs("paper")))


def test_methods_seeds_and_initialisations_select_runs():
    runs = grid_runs("paper", ["rdm", "erm"], [3, 1], ["erm"])
    assert [(run.method, run.init, run.value, run.config.seed) for run in runs] == [
        (method, init, value, seed)
        for seed in (3, 1)
        for method, init, values in (
            ("erm", "erm", (600, 1000)),
            ("rdm", "erm", (500, 1000, 2500, 5000, 10000)),
        )
        for value in values
    ]
    assert set(ids(runs)) <= set(ids(grid_runs("paper")))


@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_methods_on_whole_domains_share_one_erm_phase_per_seed(budget):
    runs = [run for run in grid_runs(budget) if run.init == "erm"]
    phases = {run.config.erm_phase().id for run in runs if run.method != "mmd"}
    assert len(phases) == len(SEEDS[budget])
    of_mmd = {run.config.erm_phase().id for run in runs if run.method == "mmd"}
    assert len(of_mmd - phases) == len(SEEDS[budget])  # MMD uses batches


def test_erm_phase_is_the_run_of_erm_with_400_steps():
    runs = grid_runs("paper")
    whole = [run.config for run in runs if run.init == "erm" and run.method != "mmd"]
    phases = {config.erm_phase().id for config in whole}
    assert phases == {run.config.id for run in runs if (run.method, run.value) == ("erm", 400)}


def test_domains_and_hyper_parameters_exist():
    for run in grid_runs("paper", seeds=[0]):
        options = run.config.data_options
        names = domain_names(options["p"], options["test_p"])
        assert run.config.test_domains == names[2:]
        own = {item.name for item in fields(methods()[run.config.method])}
        assert set(run.config.hparams) <= own
        assert len(TEST_P) == 11


def test_default_value_is_on_the_grid():
    assert all(method.default in method.grid for method in METHODS.values())


def test_published_numbers_of_every_row_except_rdm_with_the_kernel_and_the_control():
    rows = {(name, init) for name, method in METHODS.items() for init in method.inits}
    assert rows - set(TABLE1) == {
        ("rdm-mmd", "random"),
        ("rdm-mmd", "erm"),
        ("erm-switch", "erm"),
    }
    assert set(TABLE1) <= rows


def test_ids_of_all_planned_runs_are_stable():
    runs = [run for budget in SEEDS for run in grid_runs(budget) if run.method not in LATER]
    digest = hashlib.sha256("".join(sorted(ids(runs))).encode()).hexdigest()
    assert digest[:16] == "d27886608aab2a92"


def test_control_differs_from_rdm_in_the_method_alone():
    (control,) = grid_runs("paper", ["erm-switch"], [0])
    rdm = grid_runs("paper", ["rdm"], [0], ["erm"])[0]
    own = {"method": "erm-switch", "hparams": control.config.hparams}
    assert replace(rdm.config, **own) == control.config
    switched = objective("erm-switch", control.config.hparams)
    base = OptimSpec("adam", control.config.lr, 0.0)
    method = objective("rdm", rdm.config.hparams)
    assert [switched.optim(base, s) for s in (0, 500)] == [method.optim(base, s) for s in (0, 500)]


def test_irm_squares_the_gradient_of_whole_domains():
    for run in grid_runs("laptop", ["irm"], [0]):
        assert objective("irm", run.config.hparams).estimate == "whole"
        assert variant(run.config) == "irm whole"


def test_rdm_pools_samples_as_the_released_code_does():
    for run in grid_runs("laptop", ["rdm", "rdm-mmd"], [0]):
        assert objective("rdm", run.config.hparams).pool == "samples"


def test_run_ids_are_stable():
    runs = grid_runs("paper", ["rdm", "oracle"], [0], ["erm"])
    ids = {run.title: run.config.id for run in runs}
    assert ids["RDM, two moments from ERM, λ = 5000, seed 0"] == "1aaf7c92ca6cc11d"
    assert ids["Oracle from random weights, steps = 600, seed 0"] == "a0c8c5b57d745f64"
