"""Tests of new sites against the held-out samples of training."""

import numpy as np
import pytest
import torch

import riskmatch
from riskmatch.deployment import TrainedModel
from riskmatch.deployment.monitoring import compare
from riskmatch.statistics import holm


def test_false_alarms_on_resamples_of_the_pool_have_the_rate_of_the_level():
    rng = np.random.default_rng(0)
    pool = np.concatenate([rng.exponential(1, 60), rng.exponential(3, 60)])
    alarms = 0
    for _ in range(1000):
        site, *rest = np.split(rng.permutation(pool), [30, 75])
        found = compare(site, dict(zip("ab", rest, strict=True)), 99, rng)
        alarms += found[0]["p"] <= 0.05
    assert 0.03 <= alarms / 1000 <= 0.07


def test_domains_of_any_size_weigh_the_same_in_the_pool():
    rng = np.random.default_rng(0)
    reference = {"small": np.zeros(20), "large": np.ones(300)}
    pool, small, large = compare(rng.random(50), reference, 19, rng)
    assert (pool["reference_samples"], pool["reference_mean"]) == (40, 0.5)
    assert (small["reference_mean"], large["reference_mean"]) == (0, 1)


def test_mmd_and_effect_of_scalars_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, 12).astype(float), rng.integers(1, 6, 15).astype(float)
    found = compare(x, {"a": y}, 19, rng)[0]
    expected = riskmatch.mmd2(torch.tensor(x), torch.tensor(y), unbiased=True)
    wins = [(a > b) + (a == b) / 2 for a in x for b in y]
    assert found["mmd2"] == pytest.approx(float(expected), rel=1e-6)
    assert found["effect"] == pytest.approx(np.mean(wins))


def test_mmd_of_features_is_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 3)), rng.standard_normal((5, 3)) + 1
    both = np.concatenate([x, y])
    squares = ((both[:, None] - both) ** 2).sum(-1)
    kernel = np.exp(-squares / np.median(squares[np.triu_indices(11, 1)]))
    pairs = [(i, j) for i in range(11) for j in range(11) if i != j]
    within_x = np.mean([kernel[i, j] for i, j in pairs if max(i, j) < 6])
    within_y = np.mean([kernel[i, j] for i, j in pairs if min(i, j) >= 6])
    found = compare(x, {"a": y}, 19, rng)[0]
    assert found["mmd2"] == pytest.approx(within_x + within_y - 2 * kernel[:6, 6:].mean())


def test_features_far_apart_have_effect_one_and_equal_ones_none():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 5))
    far = compare(x + 1e3, {"a": x}, 99, rng)[0]
    same = compare(rng.standard_normal((40, 5)), {"a": x}, 99, rng)[0]
    assert far["effect"] == pytest.approx(1, abs=1e-2)
    assert (far["p"], far["mean"]) == (0.01, None)
    assert same["effect"] < 0.05 < same["p"]


def test_holms_adjustment_is_that_of_its_definition():
    p = np.array([0.01, 0.2, 0.01, 0.03])
    assert holm(p) == pytest.approx([0.04, 0.2, 0.04, 0.06])
    assert holm([0.03]) == [0.03]


def samples(seed):
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(seed))
    y = torch.arange(400) % 2
    x[:, 0] += 3 * y
    return x, y


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    x, y = samples(0)
    run = riskmatch.train(
        {"A": (x[:200], y[:200]), "B": (x[200:], y[200:])},
        "erm",
        out=tmp_path_factory.mktemp("runs"),
        steps=100,
        lr=0.03,
        model_options={"widths": [4]},
    )
    return riskmatch.load_model(riskmatch.save_model(run, run.folder / "model"))


def test_an_alarm_is_raised_by_wrong_labels_and_not_by_a_like_site(model):
    x, y = samples(1)
    like, unlike = (riskmatch.monitor(model, {"C": (x, labels)}) for labels in (y, 1 - y))
    assert (like.alarm, unlike.alarm) == (False, True)
    assert list(unlike.tests["against"]) == ["pool", "A", "B"]
    pool, *single = unlike.tests.to_dict("records")
    assert (pool["p"], pool["p_adjusted"]) == (1 / 1001, 1 / 1001)
    assert pool["effect"] > 0.9
    assert [row["p_adjusted"] for row in single] == [2 / 1001, 2 / 1001]
    assert list(unlike.figure().panels) == ["C"]
    curves = unlike.figure().panels["C"]
    assert [curve.label for curve in curves] == ["A", "B", "C (new)"]
    assert all(curve.y[0] == 0 and curve.y[-1] <= 1 for curve in curves)


def test_features_of_drawn_rows_are_those_of_all_rows(model):
    x = torch.randn(1500, 3, generator=torch.Generator().manual_seed(2))
    found = riskmatch.monitor(model, x, labelled=False, permutations=99).tests
    outputs, rng = model.outputs(x, features=True), np.random.default_rng(0)
    for quantity, values in (
        ("confidence", model.predictions(outputs.logits)[1].amax(1)),
        ("features", outputs.features),
    ):
        held_out = {d: getattr(model.held_out[d], quantity).astype(float) for d in "AB"}
        expected = compare(values.numpy().astype(float), held_out, 99, rng)
        rows = found[found["quantity"] == quantity].to_dict("records")
        for row, truth in zip(rows, expected, strict=True):
            assert row["samples"] == truth["samples"] == 1000
            assert row["p"] == truth["p"]
            assert row["mmd2"] == pytest.approx(truth["mmd2"], rel=1e-5)


def test_several_sites_are_adjusted_together(model):
    x, y = samples(1)
    found = riskmatch.monitor(model, {"C": (x, y), "D": (x, 1 - y)}, permutations=99)
    pooled = found.tests[found.tests["against"] == "pool"]
    assert found.alarm
    assert list(pooled["p_adjusted"]) == holm(pooled["p"].to_list())


def test_without_labels_confidences_and_features_are_compared(model):
    x, _ = samples(1)
    found = riskmatch.monitor(model, x + 5, labelled=False, permutations=99)
    assert list(dict.fromkeys(found.tests["quantity"])) == ["confidence", "features"]
    assert found.alarm
    assert found.to_json()["labelled"] is False
    assert "confidence" in found.figure().xlabel


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"level": 0}, r"level .* got 0"),
        ({"permutations": 18}, r"with 1 test .* at least 19, got 18"),
        ({"permutations": 0, "data": dict.fromkeys("CDE", samples(1))}, r"at least 59, got 0"),
        ({"permutations": 38, "data": samples(1)[0], "labelled": False}, r"at least 39, got 38"),
        ({"data": {"C": (torch.zeros(1, 3), torch.zeros(1, dtype=torch.long))}}, "'C' has 1"),
    ],
)
def test_tests_that_cannot_decide_are_refused(model, options, fact, monkeypatch):
    x, y = samples(1)
    if "permutations" in options:  # before anything is predicted
        monkeypatch.setattr(TrainedModel, "outputs", None)
    with pytest.raises(ValueError, match=fact):
        riskmatch.monitor(model, **{"data": {"C": (x, y)}, **options})
