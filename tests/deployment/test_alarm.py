"""The alarm: new sites beside sites that were left out."""

import numpy as np
import pytest

from riskmatch.deployment.alarm import _measured, judge_sites
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.metrics import find_metric
from riskmatch.runs.predictions import Predictions


def scored(errors, n, risk=None, seed=0):
    """A share of errors among n samples of two classes, with risks of a mean."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(n) % 2)
    wrong = rng.permutation(np.arange(n) < round(errors * n))
    right = np.where(wrong, 0.3, 0.8)
    scores = np.stack(
        [np.where(label == 0, right, 1 - right), np.where(label, right, 1 - right)], 1
    )
    risks = rng.gamma(2, (errors if risk is None else risk) / 2, n)
    return Predictions(np.arange(n), label, label ^ wrong, scores.max(1), risks, scores=scores)


def left_out(rates, n=400, siblings=(), total=None):
    sites = {}
    for k, rate in enumerate(rates):
        name, made = "ABCDEFGH"[k], scored(rate, n, seed=k)
        facts = {"accuracy": 1 - rate}
        group = siblings if name in siblings else ()
        mean = float(made.risk.mean())
        sites[name] = LeftOutSite(
            name, group, total or n, facts, mean, "", made, np.zeros((0, 0)), made
        )
    return sites


RATES = [0.2, 0.25, 0.15, 0.22, 0.18]


def judge(new, known=None, name="accuracy", **options):
    sites = {key: one if isinstance(one, tuple) else (one, None) for key, one in new.items()}
    return judge_sites(left_out(RATES) if known is None else known, sites, name, **options)


@pytest.mark.parametrize("name", ["accuracy", "risk", "balanced-accuracy", "auroc"])
def test_a_worse_site_alarms_and_a_better_or_like_one_does_not(name):
    new = {"worse": scored(0.7, 300), "like": scored(0.21, 300), "better": scored(0.01, 300)}
    rows, reasons = judge(new, name=name)
    assert [row["alarm"] for row in rows] == [True, False, False]
    assert reasons == {}
    worse, _, better = rows
    sign = 1 if name == "risk" else -1
    assert sign * worse["difference"] > 0 > sign * better["difference"]
    assert worse["difference"] == worse["value"] - worse["reference"]


def test_the_reference_is_the_mean_of_the_sites_and_the_same_for_all():
    rows, _ = judge({"a": scored(0.2, 50), "b": scored(0.3, 600)})
    assert rows[0]["reference"] == rows[1]["reference"] == pytest.approx(1 - np.mean(RATES))


def test_samples_of_the_left_out_sites_themselves_do_not_alarm():
    alarms = [
        row["alarm"]
        for seed in range(4)
        for rate in RATES
        for row in judge({"again": scored(rate, 120, seed=10 + seed)})[0]
    ]
    assert sum(alarms) == 0


def test_few_samples_are_named_and_block_no_other():
    known = left_out(RATES) | {"H": left_out([0.2], n=6)["A"]}
    rows, reasons = judge({"tiny": scored(0.5, 9), "worse": scored(0.7, 300)}, known)
    assert [(row["site"], row["alarm"], row["left_out"]) for row in rows] == [("worse", True, 5)]
    assert "6 samples" in reasons["left-out site H"]
    assert "9 samples" in reasons["site tiny"]


def test_a_metric_that_cannot_be_computed_is_named():
    one_class = scored(0.2, 100).take(np.flatnonzero(scored(0.2, 100).label == 1))
    rows, reasons = judge({"new": one_class, "like": scored(0.2, 100)}, name="auroc")
    assert [row["site"] for row in rows] == ["like"]
    assert "one class" in reasons["site new"]


def test_siblings_are_one_site():
    assert judge({"new": scored(0.7, 300)}, left_out(RATES[:3], siblings=("B", "C")))[0] == []
    (row,), _ = judge({"new": scored(0.7, 300)}, left_out(RATES, siblings=("B", "C")))
    assert row["left_out"] == 4
    assert row["reference"] == pytest.approx(1 - np.mean([0.2, np.mean([0.25, 0.15]), 0.22, 0.18]))


def test_looks_and_other_sites_share_the_level():
    bad = scored(0.45, 100)
    (once,), (looked,) = (judge({"new": bad}, looks=looks)[0] for looks in (1, 12))
    assert once["p"] < looked["p"] < 12 * once["p"]
    several = judge(dict.fromkeys("xyz", bad))[0]
    assert several[0]["p_adjusted"] == pytest.approx(3 * once["p"])


def test_sampling_variance_is_that_of_the_mean_and_of_all_samples():
    site = scored(0.2, 400)
    value, smooth, variance = _measured(find_metric("accuracy"), "accuracy", site)
    assert (value, smooth) == (0.8, pytest.approx(320.5 / 401))
    assert variance == pytest.approx(0.2 * 0.8 / 400, rel=0.01)
    balanced = find_metric("balanced-accuracy")
    assert _measured(balanced, "balanced-accuracy", site)[2] == pytest.approx(variance, rel=0.25)
    every = _measured(find_metric("accuracy"), "accuracy", site, None, 0.8, 4000)
    assert every[2] == pytest.approx(variance / 10, rel=0.01)


def test_groups_are_the_units_of_the_sampling_error():
    site = scored(0.2, 60)
    rows = np.repeat(np.arange(60), 10)
    many, groups = site.take(rows), rows
    alone, grouped = (
        _measured(find_metric("accuracy"), "accuracy", one, of)[2]
        for one, of in ((site, np.arange(60)), (many, groups))
    )
    assert grouped == pytest.approx(alone, rel=0.2)
    with pytest.raises(ValueError, match="3 groups"):
        _measured(find_metric("accuracy"), "accuracy", many, groups % 3)


def test_perfect_sites_have_a_finite_spread():
    (row,), _ = judge({"new": scored(0.05, 100)}, left_out([0.0] * 4, n=50))
    assert 0.01 < row["p"] < 1
