"""Selection on records made by hand, with known answers."""

import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import evaluation, run

from riskmatch.runs.config import RunConfig
from riskmatch.selection import Case, choose, draw_of, redrawn, variant


def picked(runs, rule):
    """Draw, step and accuracy in per cent of the only choice."""
    (choice,) = choose(runs, rule)
    draw = choice.run.config.hparams["draw"]
    return draw, choice.evaluation.step, round(100 * choice.accuracy, 6)


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


def test_the_test_domain_has_no_say_in_train_val():
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


def test_leave_one_out_passes_over_a_draw_that_lacks_a_run():
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


@pytest.mark.parametrize("rule", ["train-val", "test-val"])
def test_runs_with_two_test_domains_are_no_draws(rule):
    assert choose(PAIRS, rule) == []


def test_of_equals_the_fewer_steps_then_the_smaller_id():
    def at(step, draw):
        return evaluation(step, a=(0, 70), b=(step + 10 * draw, 5))

    equal = [run("b", at(1, draw), at(2, draw), draw=draw) for draw in range(4)]
    first = min(equal, key=lambda r: r.config.id)
    for seed in range(5):
        random.Random(seed).shuffle(equal)
        (choice,) = choose(equal, "train-val")
        assert (choice.run, choice.evaluation.step) == (first, 1)


def imported(seed, *accuracies, test="b", **others):
    """A run of DomainBed: validation and test accuracy by step, and the number of its draw."""
    steps = [evaluation(k, a=(0, v), b=(t, v)) for k, (v, t) in enumerate(accuracies, 1)]
    found = run(test, *steps, draw=seed)
    return replace(
        found, config=replace(found.config, hparams={"hparams_seed": seed, **others}, seed=seed + 7)
    )


@pytest.mark.parametrize("rule", ["train-val", "test-val"])
def test_of_equal_draws_of_domainbed_the_last_is_taken_whatever_its_step(rule):
    early, late, worse = (
        imported(2, (70, 1), (70, 2)),
        imported(4, (60, 3), (70, 4)),
        imported(5, (69, 5)),
    )
    (choice,) = choose([early, late, worse], rule)
    assert (choice.run, choice.evaluation.step, choice.draws) == (late, 2, 3)


def test_means_are_rounded_as_those_of_the_reference_so_that_ties_fall_alike():
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
    assert (choice.run, round(choice.score, 6), choice.draws) == (alone, 0.6, 1)
    other = imported(4, (99, 1), test_envs=[1])
    (choice,) = choose([alone, scored, other], "leave-one-out")
    assert (choice.run, choice.draws) == (alone, 1)  # the other has no pair and is none to choose


def test_scores_that_are_no_numbers_or_not_there_are_never_chosen():
    gap = evaluation(3, b=(99, 99))  # says nothing of the training domain a
    nan = evaluation(2, a=(0, math.nan), b=(99, 99))
    no_test = evaluation(4, a=(0, 99), b=(math.nan, 99))
    good = evaluation(1, a=(0, 10), b=(5, 5))
    assert picked([run("b", good, nan, gap, no_test)], "train-val") == (0, 1, 5)
    assert choose([run("b", nan, gap)], "train-val") == []
    assert choose([run("b")], "test-val") == []


def test_every_case_is_chosen_for_alone():
    runs = [
        run(test, evaluation(1, a=(1, 50), b=(2, 50)), method=method, trial=trial, model=model)
        for test in "ab"
        for method in ("rdm", "erm")
        for trial in (0, 1)
        for model in ("mlp", "cnn")
    ]
    cases = [choice.case for choice in choose(runs, "train-val")]
    assert len(cases) == 16
    assert cases == sorted(cases)
    assert cases[0] == Case("toy", "cnn", "erm", "a", 0)


def test_unfinished_runs_count_with_the_steps_they_have():
    assert picked([run("b", evaluation(1, a=(0, 9), b=(4, 8)), status="failed")], "train-val")


def test_a_choice_says_why():
    (choice,) = choose([ONE, TWO], "train-val")
    assert choice.why == (
        f"{TWO.config.id} at step 2, of 2 draws: 76.0 % is the best of the mean validation "
        "accuracy over the training domains, over draws and steps"
    )


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'train-val'"):
        choose([ONE], "trainval")


@given(st.lists(st.tuples(*[st.integers(0, 100)] * 3), min_size=1, max_size=12), st.randoms())
def test_the_order_of_runs_does_not_matter_and_nothing_is_better(accuracies, order):
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


def test_replicates_are_told_from_trials_that_redraw():
    fixed = [RunConfig("d", ("a",), "erm", lr=lr, trial=t, seed=t) for lr in (1, 2) for t in (0, 1)]
    assert redrawn(fixed) is False
    assert redrawn(fixed[1:]) is None  # one that is missing leaves it open
    draws = (0, 1), (0, 2), (1, 1), (1, 3)
    drawn = [RunConfig("d", ("a",), "erm", lr=lr, trial=trial) for trial, lr in draws]
    assert redrawn(drawn) is True
    assert redrawn(drawn[:3]) is None  # the draw of defaults is in every trial
    assert draw_of(drawn[0]) == draw_of(drawn[2]) != draw_of(drawn[1])


def test_variants_of_a_method_are_methods_of_their_own():
    configs = [RunConfig("d", ("a",), "causirl", {"distance": d}) for d in ("mmd", "coral")]
    assert list(map(variant, configs)) == ["causirl mmd", "causirl"]
    assert variant(RunConfig("d", ("a",), "causirl")) == "causirl"


def test_selection_needs_no_torch():
    code = "import sys, riskmatch.selection; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
