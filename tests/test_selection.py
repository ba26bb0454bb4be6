"""Selection on records made by hand, with known answers."""

import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_records import NOT_KNOWN, choose, evaluation, run

from riskmatch import selection
from riskmatch.metrics import MetricFacts
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.frame import frame_of
from riskmatch.runs.lines import Score
from riskmatch.runs.records import RunRecord
from riskmatch.runs.task import TaskFacts
from riskmatch.selection import CASE, RULES, best_step, cases, find_rule


def picked(runs, rule):
    """Draw, step and accuracy in per cent of the only choice."""
    (choice,) = choose(runs, rule)
    (draw,) = (one.config.hparams["draw"] for one in runs if one.config.id == choice.run)
    return draw, choice.step, round(100 * choice.value, 6)


ONE = run(
    "c",
    evaluation(1, a=(0, 70), b=(0, 80), c=(50, 90)),
    evaluation(2, a=(0, 60), b=(0, 80), c=(51, 10)),
    draw=1,
)
TWO = run(
    "c",
    evaluation(1, a=(0, 90), b=(0, 50), c=(60, 99)),
    evaluation(2, a=(0, 80), b=(0, 72), c=(61, 20)),
    draw=2,
)


def test_train_val_takes_the_best_mean_over_training_domains_of_any_draw_and_step():
    assert picked([ONE, TWO], "train-val") == (2, 2, 61)
    assert picked([ONE], "train-val") == (1, 1, 50)


def test_train_val_ignores_the_test_domain():
    spoiled = run("c", evaluation(1, a=(0, 70), b=(0, 70), c=(0, 100)), draw=3)
    assert picked([ONE, TWO, spoiled], "train-val") == (2, 2, 61)


def test_test_val_takes_the_last_step_of_each_draw():
    assert picked([ONE, TWO], "test-val") == (2, 2, 61)
    late_first = run("c", *reversed(ONE.evaluations), draw=1)
    assert picked([late_first], "test-val") == (1, 2, 51)


def pair(test, held_out, draw, *accuracies, trial=0, seed=0):
    """A run with two test domains, and its accuracies on the second by step."""
    evaluations = [
        evaluation(step, **{d: (acc if d == held_out else 0, 0) for d in "abc"})
        for step, acc in enumerate(accuracies, 1)
    ]
    return run(sorted(test + held_out), *evaluations, draw=draw, trial=trial, seed=seed)


PAIRS = [
    *(pair("c", "a", 1, 40, 80), pair("c", "b", 1, 60, 30)),
    *(pair("c", "a", 2, 20, 50), pair("c", "b", 2, 20, 58)),
]


def test_leave_one_out_takes_the_best_mean_over_domains_held_out_in_turn():
    # draw 1: 50, 55; draw 2: 20, 54
    assert picked([ONE, TWO, *PAIRS], "leave-one-out") == (1, 2, 51)


def test_leave_one_out_skips_a_draw_that_lacks_a_run():
    without = [p for p in PAIRS if p.config != PAIRS[0].config]
    assert picked([ONE, TWO, *without], "leave-one-out") == (2, 2, 61)
    assert choose([ONE, TWO], "leave-one-out") == []


def test_leave_one_out_pairs_runs_of_any_seed_but_of_one_trial():
    others = [pair("c", v, 1, 10, 10, trial=1, seed=7) for v in "ab"]
    assert choose([ONE, *others], "leave-one-out") == []
    seeded = [pair("c", v, 1, 10, 20, seed=7) for v in "ab"]
    assert picked([ONE, *seeded], "leave-one-out") == (1, 2, 51)
    same_seed = [pair("c", v, 1, 30, 20) for v in "ab"]
    assert picked([ONE, *seeded, *same_seed], "leave-one-out") == (1, 1, 50)


def averaged(record, average):
    return replace(record, config=replace(record.config, average=average))


@pytest.mark.parametrize(("average", "step"), [("ema", 1), ("swa", 2), ("swad", 2)])
def test_the_average_over_a_window_is_that_of_the_last_step(average, step):
    one = averaged(ONE, average)
    assert picked([one], "train-val") == (1, step, 49 + step)
    assert best_step(one) == step


def test_leave_one_out_pairs_averages_whose_windows_end_at_different_steps():
    shorter = [replace(pairs, evaluations=pairs.evaluations[:1]) for pairs in PAIRS[:2]]
    runs = [averaged(one, "swad") for one in (ONE, TWO, *shorter, *PAIRS[2:])]
    # draw 1: 50 at step 1, its last; draw 2: 54
    assert picked(runs, "leave-one-out") == (2, 2, 61)
    better = [averaged(pair("c", v, 1, 90), "swad") for v in "ab"]
    assert picked([*runs[:2], *better, *runs[4:]], "leave-one-out") == (1, 2, 51)


@pytest.mark.parametrize("rule", ["train-val", "test-val"])
def test_runs_with_two_test_domains_are_not_draws_of_runs_with_one(rule):
    (choice,) = choose([ONE, *PAIRS], rule)
    assert (choice.run, choice.draws) == (ONE.config.id, 1)


def test_ties_go_to_fewer_steps_then_the_smaller_hyper_parameters():
    def at(step, draw):
        return evaluation(step, a=(0, 70), b=(step + 10 * draw, 5))

    equal = [run("b", at(1, draw), at(2, draw), draw=draw) for draw in range(4)]
    first = equal[0]
    for seed in range(5):
        random.Random(seed).shuffle(equal)
        (choice,) = choose(equal, "train-val")
        assert (choice.run, choice.step) == (first.config.id, 1)


def imported(seed, *accuracies, test="b", **others):
    """A run of DomainBed: validation and test accuracy by step, and the number of its draw."""
    steps = [evaluation(k, a=(0, v), b=(t, v)) for k, (v, t) in enumerate(accuracies, 1)]
    found = run(test, *steps, draw=seed)
    return replace(
        found, config=replace(found.config, hparams={"hparams_seed": seed, **others}, seed=seed + 7)
    )


@pytest.mark.parametrize("rule", ["train-val", "test-val"])
def test_ties_of_domainbed_draws_go_to_the_largest_hparams_seed(rule):
    early, late, worse = (
        imported(2, (70, 1), (70, 2)),
        imported(4, (60, 3), (70, 4)),
        imported(5, (69, 5)),
    )
    (choice,) = choose([early, late, worse], rule)
    assert (choice.run, choice.step, choice.draws) == (late.config.id, 2, 3)


def test_means_are_added_one_by_one_as_in_domainbed():
    import numpy as np

    shares = [0.1, 0.2, 0.3]
    for values in (shares, shares[::-1]):
        a, b, c = (100 * v for v in values)
        (choice,) = choose(
            [run("d", evaluation(1, a=(0, a), b=(0, b), c=(0, c), d=(1, 1)))], "train-val"
        )
        assert choice.score == np.mean([a / 100, b / 100, c / 100])


def test_leave_one_out_pairs_draws_of_domainbed_by_their_number():
    alone = imported(3, (50, 40), test_envs=[1])
    both = imported(3, (50, 60), test="ab", test_envs=[0, 1])
    scored = replace(both, evaluations=(evaluation(1, a=(60, 0), b=(0, 0)),))
    (choice,) = choose([alone, scored], "leave-one-out")
    assert (choice.run, round(choice.score, 6), choice.draws) == (alone.config.id, 0.6, 1)
    other = imported(4, (99, 1), test_envs=[1])
    (choice,) = choose([alone, scored, other], "leave-one-out")
    assert (choice.run, choice.draws) == (alone.config.id, 1)  # the other has no pair


def test_nan_and_missing_scores_are_never_chosen():
    gap = evaluation(3, b=(99, 99))  # says nothing of the training domain a
    nan = evaluation(2, a=(0, math.nan), b=(99, 99))
    no_test = evaluation(4, a=(0, 99), b=(math.nan, 99))
    good = evaluation(1, a=(0, 10), b=(5, 5))
    assert picked([run("b", good, nan, gap, no_test)], "train-val") == (0, 1, 5)
    assert choose([run("b", nan, gap)], "train-val") == []
    assert choose([run("b")], "test-val") == []


def test_each_case_has_its_own_choice():
    runs = [
        run(test, evaluation(1, a=(1, 50), b=(2, 50)), method=method, trial=trial, model=model)
        for test in "ab"
        for method in ("rdm", "erm")
        for trial in (0, 1)
        for model in ("mlp", "cnn")
    ]
    chosen = [choice[: len(CASE)] for choice in choose(runs, "train-val")]
    assert len(chosen) == 16
    assert chosen == sorted(chosen)
    assert chosen[0] == ("toy", "cnn", "erm", "a", 0)


def test_unfinished_runs_count_with_the_steps_they_have():
    assert picked([run("b", evaluation(1, a=(0, 9), b=(4, 8)), status="failed")], "train-val")


def test_an_unknown_rule_raises():
    with pytest.raises(ValueError, match="Did you mean 'train-val'"):
        choose([ONE], "trainval")


@settings(max_examples=20)
@given(st.lists(st.tuples(*[st.integers(0, 100)] * 3), min_size=1, max_size=12), st.randoms())
def test_the_best_score_is_chosen_in_any_order_of_runs(accuracies, order):
    runs = [
        run("c", evaluation(1, a=(0, a), b=(0, b), c=(c, c)), draw=k)
        for k, (a, b, c) in enumerate(accuracies)
    ]
    mixed = order.sample(runs, len(runs))
    best = {
        "train-val": max(a + b for a, b, _ in accuracies) / 200,
        "test-val": max(c for *_, c in accuracies) / 100,
    }
    for rule, score in best.items():
        (choice,) = choose(runs, rule)
        assert choose(mixed, rule) == [choice]
        assert choice.score == pytest.approx(score)


def test_fields_that_make_another_method_are_part_of_the_variant():
    configs = [RunConfig("d", ("a",), "causirl", {"distance": d}) for d in ("mmd", "coral")]
    assert list(map(variant, configs)) == ["causirl mmd", "causirl"]
    assert variant(RunConfig("d", ("a",), "causirl")) == "causirl"


def test_a_rule_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "last_step_rules.py").write_text(
        "from riskmatch.selection import Rule\n"
        'LAST = Rule("last", "the accuracy", domains="training", step="last", reported="val")\n'
        "NUMBER = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert picked([ONE], "last_step_rules:LAST") == (1, 2, 10)
    with pytest.raises(ValueError, match=r"last_step_rules:NUMBER.* must be .*Rule, got int"):
        choose([ONE], "last_step_rules:NUMBER")


def several(accuracies, seed=0, names="abc", data="toy", **others):
    """A run that tests on all of ``accuracies`` at once: step → domain → (train, val)."""
    tests = tuple(accuracies[1])
    evaluations = [
        evaluation(step, **{d: (0, 50) for d in names if d not in tests}, **scores)
        for step, scores in accuracies.items()
    ]
    return run(tests, *evaluations, data=data, seed=seed, **others)


TARGET = {"test_domain": "b"}
BEST = replace(RULES["colored-mnist-best"], **TARGET)
LAST = replace(RULES["colored-mnist-last"], **TARGET)


def test_the_colored_mnist_rules_take_one_draw_for_all_seeds():
    # On seed 0 draw 1 is better, on both seeds together draw 2.
    runs = [
        several({1: {"a": (1, 0), "b": (10 * seed + draw, val)}}, seed, draw=draw)
        for draw, vals in ((1, (70, 50)), (2, (65, 60)))
        for seed, val in enumerate(vals)
    ]
    chosen = choose(runs, BEST)
    assert [(c.test_domain, c.trial, round(100 * c.value), c.draws) for c in chosen] == [
        ("a", 0, 1, 2), ("a", 1, 1, 2), ("b", 0, 2, 2), ("b", 1, 12, 2)
    ]  # fmt: skip


def test_the_colored_mnist_rules_compare_draws_on_the_seeds_that_all_have():
    # The grid is on seed 0 alone, where draw 1 is better; on its other seed it is bad.
    runs = [
        several({1: {"a": (0, 0), "b": (draw, val)}}, seed, draw=draw)
        for draw, seed, val in ((1, 0, 70), (1, 1, 10), (2, 0, 60))
    ]
    chosen = [c for c in choose(runs, BEST) if c.test_domain == "b"]
    assert [(c.trial, round(100 * c.value)) for c in chosen] == [(0, 1), (1, 1)]


def test_the_colored_mnist_rules_choose_the_step_by_one_domain_for_all():
    one = several({1: {"a": (1, 90), "b": (2, 60)}, 2: {"a": (3, 10), "b": (4, 50)}})
    assert [(c.step, round(100 * c.value)) for c in choose([one], BEST)] == [(1, 1), (1, 2)]
    assert [(c.step, round(100 * c.value)) for c in choose([one], LAST)] == [(2, 3), (2, 4)]


def test_the_colored_mnist_rules_choose_nothing_for_runs_that_do_not_test_on_their_domain():
    assert choose([ONE], BEST) == []


def case_table(*runs):
    return cases(frame_of(runs))


def test_a_run_with_several_test_domains_is_a_case_of_each():
    both = several({1: {"a": (30, 90), "b": (40, 20)}})
    table = case_table(both, replace(both, config=replace(both.config, method="rdm")))
    assert list(table["test_domain"]) == ["a", "b"] * 2
    # The other test domain has no say in train-val.
    assert {c.score for c in choose([both], "train-val")} == {0.5}


def test_runs_that_train_on_different_domains_are_not_compared():
    table = case_table(
        several({1: {"a": (0, 0), "b": (0, 0)}}), several({1: {"a": (0, 0), "c": (0, 0)}})
    )
    assert table["test_domain"].isna().all()


def test_seeds_stand_for_trials_where_runs_differ_in_nothing_else():
    runs = [replace(ONE, config=replace(ONE.config, seed=seed)) for seed in (3, 5, 9)]
    assert list(case_table(*runs)["trial"]) == [0, 1, 2]


def test_trials_stay_where_seeds_follow_them():
    runs = [replace(ONE, config=replace(ONE.config, seed=trial, trial=trial)) for trial in (2, 5)]
    assert list(case_table(*runs)["trial"]) == [2, 5]


def test_draws_with_seeds_of_their_own_stay_draws():
    runs = [replace(ONE, config=replace(ONE.config, hparams={"draw": s}, seed=s)) for s in range(4)]
    assert set(case_table(*runs)["trial"]) == {0}


def test_a_second_seed_of_one_draw_leaves_the_other_draws_together():
    draws = [(draw, 10 + draw) for draw in range(4)] + [(2, 30)]
    runs = [replace(ONE, config=replace(ONE.config, hparams={"draw": d}, seed=s)) for d, s in draws]
    table = case_table(*runs).set_index("seed")
    assert table["trial"].to_dict() == {10: 0, 11: 0, 12: 0, 13: 0, 30: 1}


def test_other_data_options_are_another_data_set():
    options = [{"seed": 0}, {"seed": 1}, {"p": [0.5], "seed": 0}]
    runs = [
        replace(ONE, config=replace(ONE.config, seed=o["seed"], data_options=o)) for o in options
    ]
    table = case_table(*runs)
    assert list(table["data"]) == ["toy", "toy", "toy, p [0.5]"]
    assert set(table["own_data"]) == {"toy"}


def test_erm_initialised_runs_are_separate_where_a_method_has_both_kinds():
    def started(pretrain, method="rdm"):
        return replace(ONE, config=replace(ONE.config, method=method, pretrain=pretrain))

    both = case_table(started(0), started(5), started(0, "erm"))
    assert list(both["model"]) == ["mlp", "ERM-initialised mlp", "mlp"]
    assert set(case_table(started(5), started(0, "erm"))["model"]) == {"mlp"}


def test_the_fewest_options_are_usual_among_equally_frequent_ones():
    options = [{"task": "adaptation"}, {"holdout": 0.5}, {}]
    runs = [replace(ONE, config=replace(ONE.config, data_options=o)) for o in options]
    assert list(case_table(*runs)["data"]) == ["toy, task adaptation", "toy, holdout 0.5", "toy"]


def test_planned_runs_are_cases_too():
    config = replace(ONE.config, seed=7)
    table = cases(frame_of([ONE]), [ONE.config, config]).set_index("run")
    assert table["status"].to_dict() == {ONE.config.id: "done", config.id: "planned"}
    assert table["trial"].to_dict() == {ONE.config.id: 0, config.id: 1}


def test_choose_takes_paths(tmp_path):
    from riskmatch.runs import records

    for one in (ONE, TWO):
        records.write(tmp_path / one.config.id, one)
    (choice,) = selection.choose(tmp_path, "train-val").itertuples()
    assert (choice.run, choice.step) == (TWO.config.id, 2)
    assert len(selection.choose([tmp_path, str(tmp_path)], "test-val")) == 1
    (tmp_path / TWO.config.id / records.FILE).write_text("{}\n")
    with pytest.warns(UserWarning, match=f"{TWO.config.id} cannot be read"):
        (choice,) = selection.choose(tmp_path).itertuples()
    assert choice.run == ONE.config.id


def test_selection_needs_no_torch():
    code = "import sys, riskmatch.selection; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_choice_says_whether_the_method_has_acted():
    runs = [
        with_warmup(
            warmup, evaluation(10, a=(9, 9), b=(70, 80)), evaluation(20, a=(9, 9), b=(0, 60))
        )
        for warmup in (5, 10)
    ]
    assert [choose([one], "train-val")[0].acts for one in runs] == [True, False]


def test_after_warmup_chooses_among_the_steps_at_which_the_method_acts():
    early, at, late = (evaluation(step, a=(step, 9), b=(9, 90 - step)) for step in (10, 20, 30))
    rdm, never = with_warmup(20, early, at, late), with_warmup(30, early, at, late)
    erm = run("a", early, at, late)
    frame = frame_of([rdm, never, erm])
    free = selection.choose(frame, "train-val").set_index("variant")
    kept = selection.choose(frame, "train-val", after_warmup=True).set_index("variant")
    assert free["step"].to_dict() == {"erm": 10, "rdm": 10}
    assert kept["step"].to_dict() == {"erm": 10, "rdm": 30}
    assert kept["run"]["rdm"] == rdm.config.id
    assert kept["draws"].to_dict() == {"erm": 1, "rdm": 1}
    assert (kept["value"]["rdm"], free["value"]["rdm"]) == (0.3, 0.1)
    assert selection.choose(frame_of([never]), "test-val", after_warmup=True).empty


def with_warmup(warmup, *evaluations):
    config = RunConfig("toy", ("a",), "rdm", {"weight": 1.0, "warmup": warmup}, steps=30)
    return RunRecord(config, evaluations, "done")


@pytest.mark.parametrize(
    ("field", "value"),
    [("domains", "tests"), ("split", "test"), ("step", "lst"), ("over", "all"), ("reported", "x")],
)
def test_a_rule_with_an_unknown_value_is_refused(field, value):
    fields = {"domains": "training", field: value}
    with pytest.raises(ValueError, match=f"Unknown {field} of the rule own '{value}'"):
        selection.Rule("own", "the mean accuracy", **fields)


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ("run", "step"),
        ("run|step", "data"),
        ("(?!lr$)", "lr"),
        ("(?!accuracy/)", "accuracy/SPLIT/DOMAIN"),
    ],
)
def test_a_data_frame_without_a_column_of_results_is_refused(columns, missing):
    frame = frame_of([run("a", evaluation(1, a=(1, 2), b=(3, 4)))])
    with pytest.raises(ValueError, match=f"lacks the column '{missing}'.*riskmatch.results"):
        selection.choose(frame.filter(regex=f"^{columns}"))


def test_a_function_is_no_rule():
    with pytest.raises(TypeError, match=r"rule must be a name .*Rule, got <function"):
        find_rule(lambda frame: frame)


@pytest.mark.parametrize("trial", range(4))  # ids in both orders
def test_of_equal_draws_the_shorter_run_is_chosen_whatever_its_id(trial):
    same = evaluation(1, a=(60, 60), b=(60, 60), c=(50, 50))
    runs = [run("c", same, trial=trial, steps=steps) for steps in (1000, 400)]
    (chosen,) = choose(runs, "train-val")
    assert chosen.run == runs[1].config.id


def judged(metric, higher, test, *steps, draw=0):
    """A run whose evaluations have ``metric``, by domain, the same on both splits."""
    facts = TaskFacts("own", metric, {metric: MetricFacts(metric, higher)})
    evaluations = [
        replace(
            evaluation(step, **dict.fromkeys(values, (0, 0))),
            scores={
                d: dict.fromkeys(("train", "val"), Score({metric: v}, math.nan, NOT_KNOWN))
                for d, v in values.items()
            },
        )
        for step, values in enumerate(steps, 1)
    ]
    return replace(run(test, *evaluations, draw=draw), task=facts)


values = st.fixed_dictionaries(dict.fromkeys("abc", st.floats(0, 9)))


@given(st.lists(st.lists(values, min_size=1, max_size=3), min_size=1, max_size=3))
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("higher", [True, False])
def test_train_val_takes_the_lowest_value_where_lower_is_better(higher, draws):
    runs = [judged("own", higher, "c", *steps, draw=k) for k, steps in enumerate(draws)]
    scored = [(v["a"] + v["b"]) / 2 for steps in draws for v in steps]
    (choice,) = selection.choose(frame_of(runs)).itertuples()
    assert choice.metric == "own"
    assert choice.score == (max if higher else min)(scored)
    (chosen,) = (one for one in runs if one.config.id == choice.run)
    assert choice.value == draws[runs.index(chosen)][choice.step - 1]["c"]
    assert choice.step == best_step(chosen)


def test_a_rule_over_all_trials_takes_the_lowest_mean_where_lower_is_better():
    test = TARGET["test_domain"]
    runs = [judged("own", False, [test], {test: value}, draw=k) for k, value in enumerate((3, 2))]
    (choice,) = choose(runs, BEST)
    assert (choice.run, choice.value) == (runs[1].config.id, 2)


def test_metrics_that_runs_lack_or_do_not_share_are_refused_by_name():
    first, second = judged("rmse", False, "c", {"a": 1, "b": 1, "c": 1}), ONE
    with pytest.raises(ValueError, match=r"primary metrics, 'accuracy', 'rmse'.*--metric"):
        selection.choose(frame_of([first, second]))
    with pytest.raises(ValueError, match=r"the metric 'auroc'. They have 'accuracy', 'rmse'"):
        selection.choose(frame_of([first, second]), metric="auroc")
    (choice,) = selection.choose(frame_of([first, second]), metric="rmse").itertuples()
    assert (choice.run, choice.metric) == (first.config.id, "rmse")
