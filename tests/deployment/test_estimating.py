"""Estimates of metrics at sites without labels."""

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import riskmatch
from riskmatch.deployment.estimation.calibration import BASELINES, ESTIMATORS, choose, judge
from riskmatch.deployment.estimation.case import Case, Unlabelled
from riskmatch.deployment.estimation.shift import shifts
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.metrics import find_metric
from riskmatch.runs.predictions import Predictions


def scored(confidence, right):
    """Predictions of class 0 of two with these confidences."""
    n, confidence = len(confidence), np.asarray(confidence, float)
    label = np.where(right, 0, 1)
    scores = np.stack([confidence, 1 - confidence], 1)
    zeros = np.zeros(n, int)
    return Predictions(np.arange(n), label, zeros, confidence, np.zeros(n), scores=scores)


def unlabelled(predictions, features=None):
    wide = np.empty((0, 0)) if features is None else features
    return Unlabelled(predictions.predicted, predictions.scores, wide)


def draw(rng, n, difficulty=0.0, honest=True):
    """Confidences, and whether each is right: calibrated, or of one accuracy whatever they are."""
    confidence = np.clip(rng.beta(8 - 4 * difficulty, 2, n), 0.5, 1)
    return scored(confidence, rng.random(n) < (confidence if honest else 0.75))


def left_out(rng, count, features=None, honest=True, n=400):
    sites = []
    for k in range(count):
        part = draw(rng, n, rng.random(), honest)
        truth = {"accuracy": float((part.label == 0).mean())}
        wide = rng.normal(0 if features is None else features[k], 1, (60, 3))
        known = draw(rng, n, 0.0, honest)
        sites.append(LeftOutSite(f"s{k}", (), n, truth, 0.0, f"r{k}", part, wide, known))
    return sites


def case(validation, site, others=(), metric="accuracy"):
    return Case(metric, site, validation, others, find_metric(metric))


def test_on_the_calibration_data_the_threshold_gives_their_accuracy_exactly():
    rng = np.random.default_rng(0)
    for n in (1, 7, 400):
        known = scored(rng.permutation(n) / (2 * n) + 0.5, rng.random(n) < 0.7)
        estimate = ESTIMATORS["thresholded"](case(known, unlabelled(known)))
        assert estimate == pytest.approx((known.label == 0).mean(), abs=1e-12)


def test_difference_of_confidences_is_accuracy_less_the_fall():
    known = scored([0.9, 0.7, 0.8, 0.6], [True, True, True, False])
    site = unlabelled(scored([0.7, 0.6], [True, True]))
    assert ESTIMATORS["difference"](case(known, site)) == pytest.approx(0.75 - (0.75 - 0.65))


def test_calibrated_confidence_undoes_a_known_miscalibration():
    rng = np.random.default_rng(0)
    odds = rng.normal(2, 1, 20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(0.5 * odds - 0.3)))
    confidence = 1 / (1 + np.exp(-odds))
    known, new = np.split(np.arange(20_000), 2)
    site = new[odds[new] < 2]  # a shift that leaves the calibration as it is
    data = case(scored(confidence[known], right[known]), unlabelled(scored(confidence[site], True)))
    assert ESTIMATORS["calibrated"](data) == pytest.approx(right[site].mean(), abs=0.015)
    assert np.mean(confidence[site]) > right[site].mean() + 0.1


@pytest.mark.parametrize("metric", ["balanced-accuracy", "macro-f1", "log-loss", "brier", "auroc"])
def test_expected_metrics_are_those_of_labels_that_follow_the_scores(metric):
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([1.0, 0.5, 0.3], 8000)
    y = (rng.random((8000, 1)) > scores.cumsum(1)[:, :-1]).sum(1)
    confidence = scores.max(1)
    known = Predictions(np.arange(8000), y, scores.argmax(1), confidence, confidence, scores=scores)
    site = Unlabelled(scores.argmax(1), scores)
    truth = find_metric(metric)(y, site.predicted, scores)[0]
    assert ESTIMATORS["calibrated"](case(known, site, (), metric)) == pytest.approx(truth, abs=0.02)


def test_the_nearest_site_by_features_gives_its_metric():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 3, features=[0, 5, 10])
    new = unlabelled(draw(rng, 50), rng.normal(9, 1, (60, 3)))
    assert ESTIMATORS["nearest"](case(draw(rng, 50), new, sites)) == sites[2].metrics["accuracy"]


def test_the_error_is_that_of_a_plain_loop_over_sites_each_without_itself():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 5)
    new = case(draw(rng, 100), unlabelled(draw(rng, 400)), sites)
    judged = {one.name: one for one in judge({**ESTIMATORS, **BASELINES}, new)}
    truth = [site.metrics["accuracy"] for site in sites]
    without = [abs(t - np.mean([*truth[:k], *truth[k + 1 :]])) for k, t in enumerate(truth)]
    assert judged["left-out mean"].error == pytest.approx(np.mean(without))
    assert judged["left-out mean"].value == pytest.approx(np.mean(truth))
    raw = [
        (s.validation.label == 0).mean()
        - s.validation.confidence.mean()
        + s.predictions.confidence.mean()
        for s in sites
    ]
    falls = np.subtract(truth, raw)
    corrected = [abs(e - np.delete(falls, k).mean()) for k, e in enumerate(falls)]
    assert judged["difference"].error == pytest.approx(np.mean(corrected))
    assert judged["difference"].value == pytest.approx(judged["difference"].raw + falls.mean())
    assert "other networks" in judged["nearest"].missing


def test_siblings_calibrate_nothing_of_each_other_and_count_once():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 4)
    pair = ("s0", "s1")
    for k in (0, 1):
        sites[k] = LeftOutSite(**{**vars(sites[k]), "siblings": pair})
    seen = []

    def spy(one):
        seen.append([other.name for other in one.others])
        return 0.0

    (judged,) = judge({"spy": spy}, case(draw(rng, 50), unlabelled(draw(rng, 50)), sites))
    truth = [site.metrics["accuracy"] for site in sites]
    assert seen == [["s0", "s1", "s2", "s3"], ["s2", "s3"], ["s2", "s3"],
                    ["s0", "s1", "s3"], ["s0", "s1", "s2"]]  # fmt: skip
    (a, b), *rest = [truth[:2], *truth[2:]]
    mean = ((a + b) / 2 + sum(rest)) / 3
    assert judged.value == pytest.approx(mean)
    pair = [abs(one - np.mean(rest)) for one in (a, b)]
    single = [abs(one - ((a + b) / 2 + sum(rest) - one) / 2) for one in rest]
    assert judged.error == pytest.approx(np.mean([np.mean(pair), *single]))


def test_the_baseline_is_used_where_confidence_tells_nothing_and_not_where_it_tells_all():
    for honest in (True, False):
        rng = np.random.default_rng(0)
        sites = left_out(rng, 8, honest=honest)
        new = case(draw(rng, 400, 0, honest), unlabelled(draw(rng, 400, 0.8, honest)), sites)
        used = choose(judge({**ESTIMATORS, **BASELINES}, new))
        assert (used.name in BASELINES) != honest


def test_the_interval_of_a_new_site_covers_its_accuracy_at_the_level():
    inside, widths = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sites, truth = left_out(rng, 7, n=200), draw(rng, 200, rng.random())
        new = case(draw(rng, 200), unlabelled(truth), sites)
        low, high = choose(judge({**ESTIMATORS, **BASELINES}, new)).interval(0.9)
        inside.append(low <= (truth.label == 0).mean() <= high)
        widths.append(high - low)
    assert np.mean(inside) >= 0.8
    assert np.mean(widths) < 0.3


def test_errors_of_a_metric_without_an_upper_bound_are_relative():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 4)
    for k, site in enumerate(sites):
        sites[k] = LeftOutSite(**{**vars(site), "metrics": {"log-loss": 0.2 * (k + 1)}})
    new = case(draw(rng, 50), unlabelled(draw(rng, 50)), sites, "log-loss")
    ends = []
    for factor in (1.0, 10.0):
        (judged,) = judge({"fixed": lambda one, factor=factor: factor}, new)
        ends.append(judged.interval(0.9))
    assert ends[1] == pytest.approx([10 * end / 10 for end in ends[0]])
    assert 0 < ends[0][0] < ends[0][1]


def test_a_site_unlike_all_others_is_named_and_others_are_not():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 8, features=rng.normal(0, 0.5, 8))
    usual = case(
        draw(rng, 400), unlabelled(draw(rng, 400, 0.5), rng.normal(0.3, 1, (60, 3))), sites
    )
    far = case(draw(rng, 400), unlabelled(draw(rng, 400, 0.5), rng.normal(9, 1, (60, 3))), sites)
    assert [shift.unlike for shift in shifts(usual, 0.9)] == [False, False]
    assert [shift.unlike for shift in shifts(far, 0.9)] == [False, True]


def test_a_few_samples_of_a_usual_site_are_not_unlike_the_others():
    alarms = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        few = unlabelled(draw(rng, 20, rng.random()), rng.normal(0, 1, (20, 3)))
        sites = left_out(rng, 8, features=np.zeros(8))
        new = case(draw(rng, 400), few, sites)
        alarms.append([shift.unlike for shift in shifts(new, 0.9)])
    assert (np.mean(alarms, axis=0) <= 0.15).all()


def test_features_that_differ_by_sampling_alone_are_not_unlike_any():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 3, features=np.zeros(3))
    same = [replace(site, features=sites[0].features) for site in sites]
    usual = unlabelled(draw(rng, 400, 0.5), rng.normal(0, 1, (60, 3)))
    far = unlabelled(draw(rng, 400, 0.5), rng.normal(1, 1, (60, 3)))
    features = [shifts(case(draw(rng, 400), new, same), 0.9)[1] for new in (usual, far)]
    assert features[0].largest == 0 < features[0].value
    assert [shift.unlike for shift in features] == [False, True]


SMALL = {"steps": 60, "eval_every": 30, "lr": 0.01}


def site(seed, noise=0.0, rows=120):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(rows) % 2
    x = torch.randn(rows, 3, generator=generator) * (1 + noise)
    x[:, 0] += 2 * y
    return x, y


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    out = tmp_path_factory.mktemp("estimate")
    data = {name: site(k, k / 3) for k, name in enumerate("ABCD")}
    options = {"model": "linear", "out": out, "save": out / "model", "left_out": True, **SMALL}
    riskmatch.train(data, "erm", **options)
    return out / "model"


def test_every_estimate_is_computed_from_the_folder_alone(model):
    x, _ = site(9, 2.0)
    estimated = riskmatch.estimate(model, x, metric="accuracy")
    assert [one.name for one in estimated.judged] == [*ESTIMATORS, *BASELINES]
    assert not any(one.missing for one in estimated.judged)
    assert set(estimated.used.known) == {*"ABCD"}
    distances = [one["distance"] for one in estimated.unusual]
    assert distances == sorted(distances, reverse=True)
    furthest = [int(one["name"]) - 1 for one in estimated.unusual]
    assert riskmatch.predict(model, x, estimate=True).attrs["estimate"].value == estimated.value
    norms = x.norm(dim=1)
    assert norms[furthest].min() > norms.median()


def test_metrics_that_cannot_be_estimated_are_refused_with_those_that_can(model, tmp_path):
    with pytest.raises(ValueError, match=r"ECE.*accuracy, balanced-accuracy"):
        riskmatch.estimate(model, site(9)[0], metric="ece")
    data = {name: (site(k)[0], torch.randn(120)) for k, name in enumerate("ABC")}
    options = {"out": tmp_path, "save": tmp_path / "model", "left_out": True, **SMALL}
    riskmatch.train(data, "erm", **options)
    with pytest.raises(ValueError, match=r"RMSE.*none"):
        riskmatch.estimate(tmp_path / "model", site(9)[0])


def test_a_folder_without_left_out_sites_is_refused_with_the_cure(tmp_path):
    run = riskmatch.train({n: site(k) for k, n in enumerate("AB")}, "erm", out=tmp_path, **SMALL)
    folder = riskmatch.save_model(run, tmp_path / "model")
    with pytest.raises(ValueError, match=r"no left-out sites.*--all-domains"):
        riskmatch.estimate(folder, site(9)[0])


def half(one):
    return 0.5


def test_an_estimator_of_your_own_is_used_where_it_is_named(model):
    name = f"{__name__}:half"
    estimated = riskmatch.estimate(model, site(9)[0], estimator=name)
    assert (estimated.used.raw, estimated.used.name) == (0.5, name)
    truth = [true for _, true in estimated.used.known.values()]
    assert estimated.value == pytest.approx(np.mean(truth))
    with pytest.raises(ValueError, match="thresholded"):
        riskmatch.estimate(model, site(9)[0], estimator="tresholded")


def test_labels_of_a_left_out_site_do_not_enter_its_own_estimate():
    rng = np.random.default_rng(0)
    sites = left_out(rng, 4, features=range(4))
    new = case(draw(rng, 100), unlabelled(draw(rng, 100), rng.normal(0, 1, (60, 3))), sites)
    before = {one.name: one.known["s1"][0] for one in judge(ESTIMATORS, new)}
    wrong = SimpleNamespace(**vars(sites[1].predictions))
    wrong.label = 1 - wrong.label
    sites[1] = LeftOutSite(
        **{**vars(sites[1]), "predictions": wrong, "metrics": {"accuracy": 0.01}}
    )
    changed = Case("accuracy", new.site, new.validation, sites)
    assert {one.name: one.known["s1"][0] for one in judge(ESTIMATORS, changed)} == before


def test_estimators_import_no_torch():
    code = "import sys, riskmatch.deployment.estimation.calibration; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_page_and_the_json_hold_the_result(model, tmp_path):
    page = tmp_path / "page.html"
    estimated = riskmatch.estimate(model, site(9)[0], out=page)
    text, values = page.read_text(), json.loads(json.dumps(estimated.to_json()))
    assert estimated.facts.shown(estimated.value) in text
    assert text.count("<table") == 5
    assert values["low"] <= values["value"] <= values["high"]
