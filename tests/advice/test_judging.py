"""What advice rests on: the prediction interval, gains over ERM, the recommended method."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from riskmatch.advice import Advised
from riskmatch.advice.judging import (
    BOOSTING,
    majority_share,
    method_results,
    prediction_interval,
    recommended,
)

ABC = [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("values", [(0.5, 0.6), (0.7, 0.72, 0.69, 0.75, 0.71)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_interval_is_that_of_students_distribution(values, level):
    found, n = prediction_interval(values, level), len(values)
    scale = np.std(values, ddof=1) * np.sqrt(1 + 1 / n)
    low, high = t.interval(level, n - 1, np.mean(values), scale)
    expected = (np.mean(values), max(0, low), min(1, high))
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert found.level == level


def test_the_interval_covers_one_new_domain_as_often_as_it_says():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.5, 0.02, (2000, 5))
    intervals = (prediction_interval(row[:4]) for row in draws)
    inside = [i.low <= row[4] <= i.high for i, row in zip(intervals, draws, strict=True)]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)


def test_siblings_count_as_one_domain():
    accuracies = {"erm": dict(zip("abcd", (0.5, 0.7, 0.6, 0.8), strict=True))}
    (found,) = method_results(accuracies, [("a", "b"), ("c",), ("d",)])
    assert found.expected == prediction_interval([0.6, 0.6, 0.8])


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
