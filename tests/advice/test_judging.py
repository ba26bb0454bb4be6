"""What advice rests on: the prediction interval, gains over ERM, the recommended method."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from riskmatch.advice import Advised
from riskmatch.advice.judging import (
    Harm,
    harm_lines,
    method_results,
    prediction_interval,
    recommended,
)
from riskmatch.metrics import METRICS
from riskmatch.statistics import new_site_interval


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


def results(**gains):
    base = dict(zip("abcdef", (0.5, 0.6, 0.7, 0.55, 0.65, 0.6), strict=True))
    methods = {
        name.replace("_", " "): {d: base[d] + g for d, g in zip(base, own, strict=True)}
        for name, own in gains.items()
    }
    return method_results({"erm": base, **methods}, [(d,) for d in base])


STEADY, NOISY = (0.05, 0.06, 0.055, 0.05, 0.06, 0.05), (0.1, 0.3, -0.05, 0.1, -0.2, 0.1)


def test_erm_is_recommended_unless_a_method_beats_it_for_a_new_domain():
    found = results(rdm=NOISY, vrex=STEADY, coral=np.array(STEADY) / 2.5)
    assert [one.beats_erm for one in found] == [False, False, True, True]
    assert recommended(found).variant == "vrex"
    assert found[2].gain.values == pytest.approx(100 * np.array(STEADY))
    assert recommended(results(rdm=NOISY)).variant == "erm"
    assert recommended(results(rdm=-np.array(STEADY))).variant == "erm"


def test_gains_of_several_methods_are_adjusted_together():
    gain = (0.03, 0.01, 0.02, 0.005, 0.04, 0.0)
    (_, alone) = results(rdm=gain)
    assert alone.beats_erm
    assert alone.p == pytest.approx(ttest_1samp(gain, 0).pvalue, rel=1e-6)
    noise = np.random.default_rng(0).normal(0, 0.02, (8, 6))
    _, among, *_ = found = results(rdm=gain, **{f"m{k}": own for k, own in enumerate(noise)})
    assert not among.beats_erm
    assert among.gain.mean > among.gain.error  # for itself it is beyond its interval
    assert among.p > 2 * alone.p
    values = found[1].to_json()["gain_over_erm"]
    assert (values["unit"], values["adjusted_p"]) == ("a new domain", among.p)


@pytest.mark.parametrize("name", ["gradient_boosting", "logistic_regression"])
def test_baselines_may_beat_erm_but_are_not_recommended(name):
    found = results(**{name: STEADY})
    assert found[1].beats_erm
    assert recommended(found).variant == "erm"


def advised(found, left_out="abcdef"):
    return Advised(None, "train-val", [(d,) for d in left_out], found, [], Path())


def test_advice_that_beats_no_trivial_baseline_says_so_first():
    found = advised(results(most_frequent_class=(0.01, -0.02, 0.03, 0, 0.02, -0.01)))
    assert "does not beat the most frequent class" in found.sentences[0]
    assert "a new domain" in found.sentences[0]
    assert not found.beats_trivial
    found = advised(results(most_frequent_class=-np.array(STEADY)))
    assert found.beats_trivial
    assert found.sentences[0].startswith("Expected accuracy")
    better = advised(results(most_frequent_class=(0.01,) * 6, vrex=STEADY))
    assert better.best.variant == "vrex"
    assert better.trivial.gain.values == pytest.approx(100 * (np.array(STEADY) - 0.01))


def test_trivial_baselines_are_no_comparison_of_the_adjustment():
    with_it = results(most_frequent_class=NOISY, rdm=STEADY)
    assert with_it[2].p == results(rdm=STEADY)[1].p
    assert with_it[1].p is None


@pytest.mark.parametrize(("domains", "few"), [("abcdef", False), ("abcde", True)])
def test_too_few_domains_for_a_p_value_without_assumptions_are_named(domains, few):
    found = " ".join(advised(results(rdm=NOISY), domains).notes)
    assert ("5 domains are too few" in found) == few
    assert "adjusted for 1 methods together" in found


@pytest.mark.parametrize(("method", "named"), [("rdm variance", True), ("coral", False)])
def test_risk_matching_is_judged_where_it_was_trained(method, named):
    found = advised(results(**{method: (0,) * 6}))
    assert any("Risk matching" in sentence for sentence in found.sentences) == named


def test_harms_of_one_method_are_one_line():
    def harm(variant, domain):
        return Harm(variant, domain, METRICS["accuracy"], 0.5, 0.6, interval=0.02)

    one, many = harm("rdm", "a"), [harm("rdm variance", "a"), harm("rdm variance", "b")]
    lines = harm_lines([one, *many])
    assert lines[0] == str(one)
    assert "lowers the accuracy on 2 domains: a from 60.0 to 50.0, b from" in lines[1]
    assert len(lines) == 2
