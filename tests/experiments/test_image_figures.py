"""The runs behind the figures of images, and what is said of them."""

import pytest

from riskmatch.experiments.catalogue import EXPERIMENTS
from riskmatch.experiments.experiment import STAND_IN, Request

ALONE = ["fig1", "fig3a", "fig3b", "fig5", "fig8", "fig9"]


def plan(name, budget, data=None):
    experiment = EXPERIMENTS[name]
    return [run.config for run in experiment.plan(Request(budget, data or experiment.data))]


def test_every_figure_of_the_paper_is_there_under_its_number():
    figures = {name for name, one in EXPERIMENTS.items() if one.paper.startswith("Figure")}
    main = {"fig1", "fig2", "fig3a", "fig3b", "fig4a", "fig4b"}
    assert figures == main | {"fig5", "fig6", "fig7", "fig8", "fig9"}
    assert all(EXPERIMENTS[name].alias == name for name in figures)


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("budget", ["smoke", "laptop", "paper"])
def test_one_domain_is_left_out_whatever_the_budget(name, budget):
    left = {"fig5": "Art"}.get(name, "sketch")
    assert {config.test_domains for config in plan(name, budget)} == {(left,)}
    digits = plan(name, "smoke", (STAND_IN,))
    assert {config.test_domains for config in digits} == {("0.1",)}


def test_the_paper_is_fine_tuned_and_evaluated_every_15_steps_a_head_every_3():
    for name in ("fig3a", "fig3b", "fig5"):
        whole, heads = plan(name, "paper"), plan(name, "laptop")
        assert {(c.model, c.eval_every, c.steps) for c in whole} == {
            ("timm:resnet50.tv_in1k", 15, 5000)
        }
        assert {(c.model, c.eval_every, c.steps) for c in heads} == {("lite0", 3, 1000)}
        assert {c.hparams["warmup"] for c in whole if c.method == "rdm"} == {1500}
        assert {c.hparams["warmup"] for c in heads if c.method == "rdm"} == {300}


def test_the_gap_needs_both_matches_and_shares_a_run_with_the_curves():
    gap, curves = plan("fig3a", "laptop"), plan("fig3b", "laptop")
    assert [config.hparams["match"] for config in gap] == ["worst", "variance"]
    assert gap[0].id in {config.id for config in curves}
    assert {(c.method, c.trial) for c in curves} == {
        (method, trial) for method in ("rdm", "coral", "fish") for trial in range(3)
    }


def test_ablations_have_the_papers_values_every_test_domain_and_three_trials():
    runs = plan("fig4a", "laptop")
    assert len(runs) == 6 * 4 * 3
    assert {config.hparams["weight"] for config in runs} == {0.1, 1, 2.5, 5, 7.5, 10}
    assert [config.trial for config in runs] == sorted(config.trial for config in runs)
    sizes = {config.batch_size for config in plan("fig6", "paper")}
    assert min(sizes) == 10
    assert max(sizes) == 100
    assert {config.data for config in plan("fig7", "paper")} == set(EXPERIMENTS["fig7"].data)


def test_the_usual_value_of_an_ablation_is_a_run_of_the_table():
    table = {config.id for config in plan("pacs", "laptop")}
    usual = [config for config in plan("fig4a", "laptop") if config.hparams["weight"] == 5]
    assert {config.id for config in usual} <= table
    assert {config.id for config in plan("fig8", "laptop")} <= table


def test_whoever_needs_predictions_says_so():
    assert all(EXPERIMENTS[name].predictions and not EXPERIMENTS[name].partial for name in ALONE)
