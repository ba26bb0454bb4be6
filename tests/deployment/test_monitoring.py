"""Tests of new sites against the held-out samples of training."""

import numpy as np
import pytest
import torch

import riskmatch
from riskmatch.deployment import TrainedModel
from riskmatch.deployment.alarm import compare
from riskmatch.report.density import kernel_matrix
from riskmatch.statistics import holm


def test_false_alarms_on_resamples_of_the_pool_have_the_rate_of_the_level():
    rng = np.random.default_rng(0)
    pool = np.concatenate([rng.exponential(1, 60), rng.exponential(3, 60)])
    alarms = 0
    for _ in range(400):
        site, *rest = np.split(rng.permutation(pool), [30, 75])
        found = compare(site, dict(zip("ab", rest, strict=True)), 99, rng)
        alarms += found["p"] <= 0.05
    assert 0.025 <= alarms / 400 <= 0.08


def test_domains_of_any_size_weigh_the_same_in_the_pool_and_none_is_cut():
    rng = np.random.default_rng(0)
    reference = {"small": np.zeros(20), "large": np.ones(300)}
    site = rng.random(50)
    pool = compare(site, reference, 19, rng)
    assert (pool["reference_samples"], pool["reference_mean"]) == (320, 0.5)
    assert pool["effect"] == 0.5
    weights = np.concatenate([np.full(20, 1 / 40), np.full(300, 1 / 600)])
    y = np.concatenate([*reference.values()])
    k = kernel_matrix(np.concatenate([site, y]))
    peak, w = k[0, 0], weights
    xx = (k[:50, :50].sum() - 50 * peak) / (50 * 49)
    yy = (w @ k[50:, 50:] @ w - w @ w * peak) / (1 - w @ w)
    assert pool["mmd2"] == pytest.approx(xx + yy - 2 * (k[:50, 50:] @ w).mean())


def test_the_reference_mean_is_one_number():
    rng = np.random.default_rng(0)
    reference = {"a": rng.random(3000), "b": rng.random(40)}
    means = {compare(rng.random(n), reference, 9, rng)["reference_mean"] for n in (30, 1200)}
    assert means == {(reference["a"].mean() + reference["b"].mean()) / 2}


def test_mmd_and_effect_of_scalars_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, 12).astype(float), rng.integers(1, 6, 15).astype(float)
    found = compare(x, {"a": y}, 19, rng)
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
    found = compare(x, {"a": y}, 19, rng)
    assert found["mmd2"] == pytest.approx(within_x + within_y - 2 * kernel[:6, 6:].mean())


def test_features_far_apart_have_effect_one_and_equal_ones_none():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 5))
    far = compare(x + 1e3, {"a": x}, 99, rng)
    same = compare(rng.standard_normal((40, 5)), {"a": x}, 99, rng)
    assert far["effect"] == pytest.approx(1, abs=1e-2)
    assert far["p"] == 0.01
    assert "mean" not in far
    assert same["effect"] < 0.05 < same["p"]


def test_holms_adjustment_is_that_of_its_definition():
    p = np.array([0.01, 0.2, 0.01, 0.03])
    assert holm(p) == pytest.approx([0.04, 0.2, 0.04, 0.06])
    assert holm([0.03]) == [0.03]


def samples(seed, n=400):
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    y = torch.arange(n) % 2
    x[:, 0] += 3 * y
    return x, y


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of four sites, which the folder has as left-out sites."""
    out = tmp_path_factory.mktemp("runs")
    riskmatch.train(
        {name: samples(k, 150) for k, name in enumerate("ABCD")},
        "erm",
        out=out,
        steps=60,
        eval_every=30,
        lr=0.03,
        model_options={"widths": [4]},
        save=out / "model",
        left_out=True,
    )
    return out / "model"


def test_an_alarm_is_raised_by_wrong_labels_and_not_by_a_like_site(model):
    x, y = samples(9)
    like, unlike = (riskmatch.monitor(model, {"N": (x, labels)}) for labels in (y, 1 - y))
    assert (like.alarm, unlike.alarm) == (False, True)
    assert (like.uncalibrated, unlike.untested) == ("", {})
    (row,) = unlike.sites.to_dict("records")
    left_out = riskmatch.load_model(model).left_out
    assert row["left_out"] == 4
    assert row["reference"] == np.mean([site.metrics["accuracy"] for site in left_out.values()])
    assert row["p"] < 0.01
    assert list(unlike.tests["reference_samples"]) == [120]
    assert unlike.tests["p"][0] == 1 / 1001


def test_the_line_names_site_direction_and_size_in_points(model):
    x, y = samples(9)
    found = riskmatch.monitor(model, {"N": (x, 1 - y)}, permutations=9)
    (row,) = found.sites.to_dict("records")
    (line,) = found.lines
    assert line.startswith("ALARM: N: accuracy")
    assert f"{100 * (row['reference'] - row['value']):.1f} points lower" in line
    by_risk = riskmatch.monitor(model, {"N": (x, 1 - y)}, metric="risk", permutations=9, looks=12)
    assert "mean risk" in by_risk.lines[0]
    assert "higher than" in by_risk.lines[0]
    assert "12 looks" in by_risk.lines[0]


def test_a_different_or_better_site_does_not_alarm_and_the_distribution_test_says_so(model):
    x, y = samples(9)
    x[:, 0] += 9 * (2 * y - 1)
    found = riskmatch.monitor(model, {"N": (x, y)}, metric="risk")
    assert found.tests["p"][0] <= 0.01
    assert not found.alarm
    assert "lower than" in found.lines[-1]


def test_training_sites_do_not_alarm(model):
    data = {name: samples(k, 150) for k, name in enumerate("ABCD")}
    for metric in ("accuracy", "risk"):
        found = riskmatch.monitor(model, data, metric=metric, permutations=9)
        assert not found.alarm


def test_a_site_with_few_samples_is_named_and_blocks_no_other(model):
    x, y = samples(9)
    found = riskmatch.monitor(model, {"T": (x[:5], y[:5]), "N": (x, 1 - y)}, permutations=9)
    assert found.alarm
    assert list(found.sites["site"]) == ["N"]
    assert set(found.tests["site"]) == {"N"}
    assert "5 samples" in found.untested["site T"]
    assert any("site T" in line for line in found.lines)


def test_a_training_domain_with_few_samples_is_left_out_of_the_pool(tmp_path):
    x, y = samples(0)
    data = {"A": (x[:200], y[:200]), "B": (x[200:240], y[200:240])}
    run = riskmatch.train(data, "erm", out=tmp_path, steps=4)
    found = riskmatch.monitor(riskmatch.save_model(run, tmp_path / "m"), {"N": (x, y)})
    assert list(found.tests["reference_samples"]) == [40]
    assert "8 samples" in found.untested["training domain B"]


def test_without_left_out_sites_the_cure_is_named_and_the_information_stays(tmp_path):
    names = ["0.9", "0.8", "0.1"]
    options = {"data_options": {"samples": 60}, "steps": 4, "seed": 3}
    run = riskmatch.train("colored-digits", "erm", out=tmp_path, save=tmp_path / "m", **options)
    found = riskmatch.monitor(tmp_path / "m", "colored-digits", permutations=9)
    assert (found.alarm, len(found.sites)) == (False, 0)
    assert "0 left-out sites" in found.uncalibrated
    assert f"samples=60 --all-domains --save {tmp_path / 'm'}" in found.uncalibrated
    assert list(run.record.data.samples) == names
    assert list(found.tests["site"]) == names


def test_features_of_drawn_rows_are_those_of_all_rows(model):
    model = riskmatch.load_model(model)
    x = torch.randn(1500, 3, generator=torch.Generator().manual_seed(2))
    found = riskmatch.monitor(model, x, labelled=False, permutations=99).tests
    outputs, rng = model.outputs(x, features=True), np.random.default_rng(0)
    for quantity, values in (
        ("confidence", model.predictions(outputs.logits)[1].amax(1)),
        ("features", outputs.features),
    ):
        held_out = {d: getattr(model.held_out[d], quantity).astype(float) for d in "ABCD"}
        expected = compare(values.numpy().astype(float), held_out, 99, rng)
        (row,) = found[found["quantity"] == quantity].to_dict("records")
        assert row["samples"] == expected["samples"] == 1000
        assert row["p"] == expected["p"]
        assert row["mmd2"] == pytest.approx(expected["mmd2"], rel=1e-5)


def test_without_labels_there_is_no_alarm_and_unlike_inputs_have_a_small_p(model):
    x, _ = samples(9)
    found = riskmatch.monitor(model, x + 5, labelled=False, permutations=99)
    assert list(dict.fromkeys(found.tests["quantity"])) == ["confidence", "features"]
    assert (found.alarm, len(found.sites)) == (False, 0)
    assert "no labels" in found.uncalibrated
    assert found.tests["p"].min() == 0.01
    assert found.to_json()["labelled"] is False
    assert "confidence" in found.figure().xlabel


def test_the_figure_has_a_curve_of_every_domain_and_names_the_alarms(model):
    x, y = samples(9)
    figure = riskmatch.monitor(model, {"N": (x, 1 - y)}, permutations=9).figure()
    curves = figure.panels["N"]
    assert [curve.label for curve in curves] == [*"ABCD", "N (new)"]
    assert all(curve.y[0] == 0 and curve.y[-1] <= 1 for curve in curves)
    assert figure.note.endswith("N")


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"level": 0}, r"level .* got 0"),
        ({"looks": 0}, r"looks .* got 0"),
        ({"permutations": 0}, r"permutations .* got 0"),
        ({"metric": "rmse"}, "rmse"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_predicted(
    model, options, fact, monkeypatch
):
    monkeypatch.setattr(TrainedModel, "outputs", None)
    with pytest.raises(ValueError, match=fact):
        riskmatch.monitor(model, {"N": samples(9)}, **options)
