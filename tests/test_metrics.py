"""Metrics against scikit-learn and closed forms, and on degenerate samples."""

import math

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from riskmatch.contract.task import TASKS
from riskmatch.metrics import METRICS, Metric, find_metric

ALL = sorted(METRICS)


def classes(n=200, c=4, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, c, n)
    logits = random.normal(size=(n, c)) + 1.5 * np.eye(c)[y]
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return y, scores.argmax(1), scores.astype(np.float32)


def value(name, *samples):
    number, reason = METRICS[name](*samples)
    assert not reason
    return number


def test_metrics_of_classes_are_those_of_scikit_learn():
    y, predicted, scores = classes()
    scores = scores.astype(float) / scores.sum(1, keepdims=True, dtype=float)
    expected = {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced-accuracy": reference.balanced_accuracy_score(y, predicted),
        "macro-f1": reference.f1_score(y, predicted, average="macro"),
        "auroc": reference.roc_auc_score(y, scores, multi_class="ovr"),
        "average-precision": reference.average_precision_score(y, scores),
        "log-loss": reference.log_loss(y, scores),
    }
    for name, number in expected.items():
        assert value(name, y, predicted, scores) == pytest.approx(number, rel=1e-12), name


def test_metrics_of_two_classes_are_those_of_scikit_learn():
    y, predicted, scores = classes(c=2)
    second = scores[:, 1]
    for name, function in (
        ("auroc", reference.roc_auc_score),
        ("average-precision", reference.average_precision_score),
    ):
        assert value(name, y, predicted, scores) == pytest.approx(function(y, second), rel=1e-12)
    assert value("brier", y, predicted, scores) == pytest.approx(
        reference.brier_score_loss(y, second), rel=1e-6
    )


def test_metrics_of_tags_are_those_of_scikit_learn():
    random = np.random.default_rng(1)
    y = random.integers(0, 2, (100, 3)).astype(np.float32)
    scores = random.random((100, 3)).astype(np.float32)
    predicted = (scores > 0.5).astype(np.float32)
    assert value("mean-ap", y, predicted, scores) == pytest.approx(
        reference.average_precision_score(y, scores, average="macro"), rel=1e-12
    )
    assert value("macro-f1", y, predicted, scores) == pytest.approx(
        reference.f1_score(y, predicted, average="macro"), rel=1e-12
    )
    assert value("auroc", y, predicted, scores) == pytest.approx(
        reference.roc_auc_score(y, scores, average="macro"), rel=1e-12
    )


def test_missing_tags_do_not_count():
    random = np.random.default_rng(2)
    y = random.integers(0, 2, (60, 2)).astype(np.float32)
    scores = random.random((60, 2)).astype(np.float32)
    predicted = (scores > 0.5).astype(np.float32)
    y[:20, 0] = np.nan
    means = [
        reference.roc_auc_score(y[20:, 0], scores[20:, 0]),
        reference.roc_auc_score(y[:, 1], scores[:, 1]),
    ]
    assert value("auroc", y, predicted, scores) == pytest.approx(np.mean(means), rel=1e-12)


def test_metrics_of_numbers_are_those_of_scikit_learn():
    random = np.random.default_rng(3)
    y, predicted = random.normal(size=(2, 50))
    assert value("rmse", y, predicted) == reference.root_mean_squared_error(y, predicted)
    assert value("mae", y, predicted) == reference.mean_absolute_error(y, predicted)
    assert value("r2", y, predicted) == reference.r2_score(y, predicted)


def test_calibration_error_of_a_loop():
    y, predicted, scores = classes(500)
    confidence, total = scores.max(1).astype(float), 0.0
    for b in range(15):
        last = b == 14
        inside = (confidence >= b / 15) & ((confidence < (b + 1) / 15) | last)
        if inside.any():
            gap = (predicted == y)[inside].mean() - confidence[inside].mean()
            total += inside.sum() / len(y) * abs(gap)
    assert value("ece", y, predicted, scores) == pytest.approx(total, abs=1e-9)


def test_classes_without_samples_count_in_no_mean():
    y, predicted, scores = classes(c=4)
    kept = y != 2
    y, predicted, scores = y[kept], predicted[kept], scores[kept]
    expected = np.mean([reference.roc_auc_score(y == k, scores[:, k]) for k in (0, 1, 3)])
    assert value("auroc", y, predicted, scores) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["auroc", "average-precision"])
def test_metric_of_one_class_is_missing_with_its_reason(name):
    _, predicted, scores = classes()
    number, reason = METRICS[name](np.zeros(len(predicted), int), predicted, scores)
    assert math.isnan(number)
    assert "one class" in reason


def test_no_samples_are_a_reason():
    number, reason = METRICS["accuracy"](np.zeros(0, int), np.zeros(0, int), None)
    assert math.isnan(number)
    assert reason == "no samples"


@given(
    y=arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 2)),
    constant=st.booleans(),
    seed=st.integers(0, 99),
)
def test_metrics_of_classes_lie_in_their_range_or_have_a_reason(y, constant, seed):
    random = np.random.default_rng(seed)
    scores = np.full((len(y), 3), 1 / 3) if constant else random.dirichlet((1, 1, 1), len(y))
    check(TASKS["classification"].metrics, y, scores.argmax(1), scores.astype(np.float32))


@given(
    y=arrays(np.float32, (6, 2), elements=st.sampled_from([0.0, 1.0, np.nan])),
    scores=arrays(np.float32, (6, 2), elements=st.sampled_from([0.0, 0.5, 1.0])),
)
def test_metrics_of_tags_lie_in_their_range_or_have_a_reason(y, scores):
    check(TASKS["multi-label"].metrics, y, (scores > 0.5).astype(np.float32), scores)


@given(
    y=arrays(np.float32, st.integers(1, 9), elements=st.integers(-3, 3)), shift=st.integers(0, 2)
)
def test_metrics_of_numbers_lie_in_their_range_or_have_a_reason(y, shift):
    check(TASKS["regression"].metrics, y, y + shift, None)


def check(names, y, predicted, scores):
    for name in names:
        metric = METRICS[name]
        number, reason = metric(y, predicted, scores)
        assert math.isnan(number) == bool(reason)
        low, high = metric.range
        if not reason:
            assert low is None or number >= low - 1e-9
            assert high is None or number <= high + 1e-9


def test_function_of_ones_own_is_a_metric_of_which_more_is_better(tmp_path, monkeypatch):
    (tmp_path / "own_metrics.py").write_text("def hits(y, predicted, scores):\n    return 3.0\n")
    monkeypatch.chdir(tmp_path)
    metric = find_metric("own_metrics:hits")
    assert (metric.title, metric.higher) == ("hits", True)
    assert metric(np.zeros(1), np.zeros(1)) == (3.0, "")


def test_own_metric_that_refuses_is_missing():
    def refuses(y, predicted, scores):
        raise ValueError("needs two sites.")

    number, reason = Metric(title="sites", function=refuses)(np.zeros(2), np.zeros(2))
    assert math.isnan(number)
    assert reason == "needs two sites"
