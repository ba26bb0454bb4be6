"""Statistics of predictions: risk distributions, calibration, confusion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_predictions import predictions, random
from scipy.integrate import trapezoid

from riskmatch.report.density import snapshots
from riskmatch.report.density import spread as spread_
from riskmatch.report.details import calibration, confusion

STEPS = {
    10: {"a": random(seed=1), "b": random(80, seed=2)},
    20: {"a": random(seed=3)},
}


def test_all_steps_and_domains_share_bins_and_grid():
    shown = [d for shot in snapshots(STEPS) for d in shot["domains"].values()]
    assert len(shown) == 3
    assert all(d["edges"] == shown[0]["edges"] and d["x"] == shown[0]["x"] for d in shown)
    risks = np.concatenate([p.risk for domains in STEPS.values() for p in domains.values()])
    assert 0.98 < np.mean(risks <= shown[0]["edges"][-1]) < 1


def test_cdf_and_histogram_match_the_risks():
    shown = snapshots(STEPS)[0]["domains"]["b"]
    risks = STEPS[10]["b"].risk
    assert shown["n"] == 80
    assert shown["mean"] == pytest.approx(risks.mean())
    expected = [np.mean(risks <= x) for x in shown["x"]]
    assert shown["cdf"] == pytest.approx(expected, abs=1e-5)
    inside = np.mean(risks <= shown["edges"][-1])
    assert np.sum(shown["heights"] * np.diff(shown["edges"])) == pytest.approx(inside, abs=1e-4)
    assert trapezoid(shown["density"], shown["x"]) == pytest.approx(inside, abs=0.05)


def test_density_of_an_easy_domain_is_not_a_spike():
    easy = predictions([0] * 100, [0] * 100, risk=np.linspace(0, 1e-3, 100))
    shown = snapshots({5: {"easy": easy, "hard": random(100)}})[0]["domains"]["easy"]
    assert max(shown["density"]) <= max(shown["heights"])
    assert trapezoid(shown["density"], shown["x"]) == pytest.approx(1, abs=1e-3)


def test_non_finite_risks_are_ignored():
    odd = predictions([0] * 4, [0] * 4, risk=[1.0, np.nan, 2.0, np.inf])
    none = predictions([0], [0], risk=[np.nan])
    (shot,) = snapshots({5: {"odd": odd, "none": none}})
    assert (shot["domains"]["odd"]["n"], shot["domains"]["odd"]["mean"]) == (2, 1.5)
    assert (shot["domains"]["none"]["n"], shot["domains"]["none"]["mean"]) == (0, None)
    assert shot["mmd"] == {
        "domains": ["odd", "none"],
        "value": [[0, None], [None, 0]],
        "p": [[None, None], [None, None]],
    }


def test_mmd_of_all_pairs():
    shot = snapshots(
        {
            5: {
                "a": random(300),
                "b": random(300),
                "far": predictions([0] * 9, [0] * 9),
            }
        }
    )[0]
    assert shot["mmd"]["domains"] == ["a", "b", "far"]
    value, p = shot["mmd"]["value"], shot["mmd"]["p"]
    assert value[0][1] < 0.01 < value[0][2] == value[2][0]
    assert p[0][2] < 0.05 < p[0][1]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60, unique=True).map(sorted))
def test_spread_steps_include_both_ends(steps):
    spread = spread_(steps, 12)
    assert spread == sorted(set(spread))
    assert (len(spread), spread[0], spread[-1]) == (min(12, len(steps)), steps[0], steps[-1])


def test_ece_of_simple_cases():
    calibrated = predictions([1, 1, 1, 0], [1, 1, 1, 1], confidence=0.75)
    assert calibration(calibrated)["ece"] == pytest.approx(0)
    overconfident = calibration(predictions([0, 1], [0, 0], confidence=1.0))
    assert overconfident["ece"] == 0.5
    assert overconfident["bins"] == [
        {"low": 14 / 15, "high": 1, "confidence": 1, "accuracy": 0.5, "n": 2}
    ]
    # Three quarters of the samples are overconfident by 0.4, a quarter underconfident by 0.5.
    mixed = predictions([0] * 4, [0, 0, 1, 0], confidence=[16 / 15 - 0.001] * 3 + [0.5])
    assert calibration(mixed)["ece"] == pytest.approx(0.75 * 0.399 + 0.25 * 0.5, abs=1e-3)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 9))
def test_ece_equals_the_sum_over_bins(n, bins, seed):
    predicted = random(n, seed=seed)
    expected, total = 0.0, 0
    for k in range(bins):
        inside = [i for i in range(n) if k / bins < predicted.confidence[i] <= (k + 1) / bins]
        if inside:
            right = np.mean([predicted.label[i] == predicted.predicted[i] for i in inside])
            expected += len(inside) / n * abs(right - np.mean(predicted.confidence[inside]))
    result = calibration(predicted, bins)
    total = sum(entry["n"] for entry in result["bins"])
    assert total == n
    assert result["ece"] == pytest.approx(expected, abs=1e-6)


def test_confusion_counts_every_sample_once():
    samples = random(500, classes=4)
    counts = np.array(confusion(samples, 4))
    for true in range(4):
        for predicted in range(4):
            both = (samples.label == true) & (samples.predicted == predicted)
            assert counts[true, predicted] == both.sum()
