"""What advice rests on: the prediction interval, gains over ERM, the recommended method."""

from dataclasses import replace
from pathlib import Path

import pytest

from riskmatch.advice import Advised
from riskmatch.advice.judging import (
    BOOSTING,
    majority_share,
    method_results,
    prediction_interval,
    recommended,
)
from riskmatch.statistics import new_site_interval

ABC = [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    ("metric", "bounds"), [("accuracy", (0, 1)), ("rmse", (0, None)), ("r2", (None, 1))]
)
def test_the_interval_is_that_of_the_random_effects_model(metric, bounds):
    found = prediction_interval([0.5, 0.6, 0.58], metric=metric)
    expected = new_site_interval([0.5, 0.6, 0.58], 0.9, bounds)
    assert (found.low, found.high) == pytest.approx(expected)
    assert (found.value, found.level, found.sites) == (pytest.approx(0.56), 0.9, 3)
    assert found.worst == (0.6 if metric == "rmse" else 0.5)


def test_with_few_domains_the_interval_is_not_the_whole_range():
    found = prediction_interval([0.57, 0.7, 0.73, 0.97])  # PACS: 21 to 100 by Student's t
    assert found.low > 0.35
    assert "56.8%) with probability 0.8" in replace(found, worst=0.568).at_least


def test_the_expected_value_of_errors_is_in_the_interval():
    found = prediction_interval([1e-9, 1e-9, 1e-9, 50], level=0.01, metric="rmse")
    assert found.low <= found.value <= found.high


def test_siblings_are_one_domain_with_their_own_values():
    accuracies = {"erm": dict(zip("abcd", (0.5, 0.7, 0.6, 0.8), strict=True))}
    (found,) = method_results(accuracies, [("a", "b"), ("c",), ("d",)])
    assert found.expected == prediction_interval([[0.5, 0.7], 0.6, 0.8])
    assert (found.expected.worst, found.expected.sites) == (0.5, 3)
    joined = prediction_interval([0.6, 0.6, 0.8])
    assert found.expected.high - found.expected.low > joined.high - joined.low


def test_the_most_frequent_class_is_that_of_the_other_domains():
    counts = {"a": [9, 1], "b": [4, 6], "c": [1, 4]}
    assert majority_share(counts, [("a",), ("b", "c")]) == pytest.approx(
        (0.1 + (0.4 + 0.2) / 2) / 2
    )


def results(**gains):
    base = {"a": 0.5, "b": 0.6, "c": 0.7}
    methods = {
        name: {d: base[d] + g for d, g in zip(base, own, strict=True)}
        for name, own in gains.items()
    }
    return method_results({"erm": base, **methods}, ABC)


def test_erm_is_recommended_unless_a_method_beats_it_beyond_its_interval():
    found = results(rdm=(0.1, 0.3, -0.05), vrex=(0.05, 0.06, 0.055), coral=(0.02, 0.021, 0.02))
    assert [one.beats_erm for one in found] == [False, False, True, True]
    assert recommended(found).variant == "vrex"
    assert found[2].gain.values == pytest.approx((5, 6, 5.5))
    assert recommended(results(rdm=(0.1, 0.3, -0.05))).variant == "erm"
    assert recommended(results(rdm=(-0.05, -0.06, -0.055))).variant == "erm"


def test_gradient_boosting_may_beat_erm_but_is_not_recommended():
    found = results(**{BOOSTING: (0.05, 0.06, 0.055)})
    assert found[1].beats_erm
    assert recommended(found).variant == "erm"


@pytest.mark.parametrize(("method", "named"), [("rdm variance", True), ("coral", False)])
def test_risk_matching_is_judged_where_it_was_trained(method, named):
    found = Advised(None, "train-val", ABC, results(**{method: (0, 0, 0)}), 0.5, [], Path())
    assert any("Risk matching" in sentence for sentence in found.sentences) == named
