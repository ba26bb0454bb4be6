import pytest

from riskmatch.defaults import search_space
from riskmatch.experiments import EXPERIMENTS, Scope
from riskmatch.experiments.experiment import STAND_IN

SINGLE_DOMAIN = ["fig1", "fig3a", "fig3b", "fig5", "fig8", "fig9"]


def plan(name, budget, data=None):
    experiment = EXPERIMENTS[name]
    return [run.config for run in experiment.plan(Scope(budget, data or experiment.data))]


def test_every_figure_of_the_paper_exists():
    figures = {name for name, one in EXPERIMENTS.items() if one.paper.startswith("Figure")}
    main = {"fig1", "fig2", "fig3a", "fig3b", "fig4a", "fig4b"}
    assert figures == main | {"fig5", "fig6", "fig7", "fig8", "fig9"}
    assert all(EXPERIMENTS[name].alias == name for name in figures)


@pytest.mark.parametrize("name", SINGLE_DOMAIN)
@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_test_domain_at_every_budget(name, budget):
    test = {"fig5": "Art"}.get(name, "sketch")
    assert {config.test_domains for config in plan(name, budget)} == {(test,)}
    digits = plan(name, "smoke", (STAND_IN,))
    assert {config.test_domains for config in digits} == {("0.1",)}


def test_training_curves_have_as_many_points_as_the_papers():
    for name in ("fig3a", "fig3b", "fig5"):
        whole, heads = plan(name, "paper"), plan(name, "laptop")
        assert {(c.model, c.eval_every, c.steps) for c in whole} == {
            ("timm:resnet50.tv_in1k", 15, 5000)
        }
        assert {(c.model, c.eval_every, c.steps) for c in heads} == {("lite0", 3, 1000)}
        assert {c.hparams["warmup"] for c in whole if c.method == "rdm"} == {1500}
        assert {c.hparams["warmup"] for c in heads if c.method == "rdm"} == {300}


def test_fig3a_trains_both_matches_and_shares_a_run_with_fig3b():
    gap, curves = plan("fig3a", "laptop"), plan("fig3b", "laptop")
    assert [config.hparams["match"] for config in gap] == ["worst", "variance"]
    assert gap[0].id in {config.id for config in curves}
    assert {(c.method, c.trial) for c in curves} == {
        (method, trial) for method in ("rdm", "coral", "fish") for trial in range(3)
    }


def test_ablations_have_the_papers_values_all_test_domains_and_three_trials():
    runs = plan("fig4a", "laptop")
    assert len(runs) == 6 * 4 * 3
    assert {config.hparams["weight"] for config in runs} == {0.1, 1, 2.5, 5, 7.5, 10}
    assert [config.trial for config in runs] == sorted(config.trial for config in runs)
    sizes = {config.batch_size for config in plan("fig6", "paper")}
    assert min(sizes) == 10
    assert max(sizes) == 100
    assert {config.data for config in plan("fig7", "paper")} == set(EXPERIMENTS["fig7"].data)


def test_ablation_of_the_weight_stays_within_the_searched_range():
    for config in plan("fig7", "laptop"):
        assert config.hparams["weight"] in search_space("rdm", config.data)["weight"].range
    assert max(c.hparams["weight"] for c in plan("fig7", "laptop") if c.data == "domainnet") == 1


def test_fig3b_compares_methods_at_one_batch_size():
    for budget in ("laptop", "paper"):
        (size,) = {config.batch_size for config in plan("fig3b", budget)}
        assert size == plan("fig3a", budget)[0].batch_size


def test_ablation_at_the_default_value_shares_runs_with_the_table():
    table = {config.id for config in plan("pacs", "laptop")}
    default = [config for config in plan("fig4a", "laptop") if config.hparams["weight"] == 5]
    assert {config.id for config in default} <= table
    assert {config.id for config in plan("fig8", "laptop")} <= table


def test_figures_of_single_domains_need_predictions_and_every_run():
    experiments = [EXPERIMENTS[name] for name in SINGLE_DOMAIN]
    assert all(one.predictions and not one.partial for one in experiments)
