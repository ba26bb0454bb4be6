"""Conformance checks for metrics: riskmatch's own, or one of yours.

Each check takes a metric and the type of labels that it judges, ``classes`` (the default), ``tags``
or ``numbers``, and raises :class:`ConformanceError`, which names the property that fails. In a test
module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_metric_conforms(check):
        check(my_metric)

>>> from riskmatch.metrics import METRICS
>>> for check in CHECKS:
...     check(METRICS["rmse"], "numbers")
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.domain import Labels
from riskmatch.metrics import Metric, MetricFunction
from riskmatch.testing import ConformanceError, checks_in, name_of, require

Array = NDArray[Any]
Samples = tuple[Array, Array, Array | None]
"""Labels, predicted labels and scores."""
Part = Metric | MetricFunction
Check = Callable[..., None]

_SAMPLES, _CLASSES = 40, 3
_TOLERANCE = 1e-9


def is_described(metric: Part, labels: Labels = "classes") -> None:
    """A metric has a title and a range from low to high; its function has a docstring."""
    made = _metric(metric)
    require(bool(made.title.strip()), metric, "has no title.")
    require(bool(made.function.__doc__), metric, "has no docstring; write the formula there.")
    low, high = made.range
    ordered = low is None or high is None or low < high
    require(ordered, metric, f"has the range {made.range}, which is empty.")


def gives_a_number_in_its_range(metric: Part, labels: Labels = "classes") -> None:
    """Of ordinary predictions it is a finite number in its range."""
    for seed in range(5):
        value, reason = _judged(metric, example(labels, seed))
        require(not reason, metric, f"cannot be computed on ordinary {labels}: {reason}.")
        require_in_range(metric, value)


def degenerate_samples_give_a_number_or_a_reason(metric: Part, labels: Labels = "classes") -> None:
    """Few samples, equal labels, equal scores, ties and missing tags: a number, or NaN and why."""
    for what, samples in _degenerate(labels).items():
        value, reason = _judged(metric, samples)
        named = math.isfinite(value) != bool(reason)
        require(named, metric, f"gives {value} with the reason {reason!r} for {what}.")
        if not reason:
            require_in_range(metric, value)


def order_does_not_matter(metric: Part, labels: Labels = "classes") -> None:
    """Samples in another order have the same value."""
    samples = example(labels)
    order = np.random.default_rng(1).permutation(_SAMPLES)
    (value, _), (other, _) = _judged(metric, samples), _judged(metric, _rows(samples, order))
    same = math.isclose(value, other, rel_tol=1e-6, abs_tol=_TOLERANCE)
    require(same, metric, f"is {value} and, in another order of the samples, {other}.")


def samples_are_left_unchanged(metric: Part, labels: Labels = "classes") -> None:
    """Labels, predictions and scores are not changed in place."""
    samples, before = example(labels), example(labels)
    _judged(metric, samples)
    for now, then in zip(samples, before, strict=True):
        same = now is None or then is None or np.array_equal(now, then, equal_nan=True)
        require(same, metric, "changes its inputs in place.")


def nothing_is_better_than_perfect(metric: Part, labels: Labels = "classes") -> None:
    """Predictions that are all right, with certainty, are not worse than others."""
    made = _metric(metric)
    for seed in range(5):
        samples = example(labels, seed)
        (value, _), (best, _) = _judged(metric, samples), _judged(metric, _perfect(samples[0]))
        close = math.isclose(value, best, abs_tol=_TOLERANCE)
        better = made.better(value, best) and not close
        require(not better, metric, f"is {value} for some predictions and {best} for perfect ones.")


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


def example(labels: Labels, seed: int = 0) -> Samples:
    """Labels of a type, predictions that are right more often than not, and scores.

    Example:
        >>> y, predicted, scores = example("tags")
        >>> y.shape, predicted.shape, scores.shape, bool(np.isnan(y).any())
        ((40, 3), (40, 3), (40, 3), True)
    """
    rng = np.random.default_rng(seed)
    if labels == "numbers":
        y = rng.normal(size=_SAMPLES).astype(np.float32)
        return y, (y + 0.5 * rng.normal(size=_SAMPLES)).astype(np.float32), None
    if labels == "tags":
        y = rng.integers(0, 2, (_SAMPLES, _CLASSES)).astype(np.float32)
        scores = 1 / (1 + np.exp(-2 * (y - 0.5) - rng.normal(size=y.shape)))
        y[rng.random(y.shape) < 0.1] = np.nan
        return y, (scores > 0.5).astype(np.float32), scores.astype(np.float32)
    if labels != "classes":
        raise ValueError(f"There are no examples of labels {labels!r}: give your own.")
    y = np.concatenate([np.arange(_CLASSES), rng.integers(0, _CLASSES, _SAMPLES - _CLASSES)])
    logits = 2 * np.eye(_CLASSES)[y] + rng.normal(size=(_SAMPLES, _CLASSES))
    scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return y, scores.argmax(1), scores.astype(np.float32)


def require_in_range(metric: Part, value: float) -> None:
    """Raise :class:`ConformanceError` unless a value is in the range of a metric."""
    low, high = _metric(metric).range
    below = low is not None and value < low - _TOLERANCE
    above = high is not None and value > high + _TOLERANCE
    require(not below and not above, metric, f"is {value}, outside of its range {(low, high)}.")


def _degenerate(labels: Labels) -> dict[str, Samples]:
    whole = example(labels)
    y, predicted, scores = whole
    rows, first = np.arange(_SAMPLES), np.zeros(_SAMPLES, int)
    cases = {
        "no samples": _rows(whole, rows[:0]),
        "one sample": _rows(whole, rows[:1]),
        "equal samples": _rows(whole, first),
        "each sample twice": _rows(whole, np.concatenate([rows, rows])),
        "equal predictions": (y, *_rows(whole, first)[1:]),
    }
    if labels == "tags":
        missing = y.copy()
        missing[:, 0] = np.nan
        cases["a tag that is missing everywhere"] = missing, predicted, scores
        cases["tags that are all missing"] = np.full_like(y, np.nan), predicted, scores
        cases["tags that are all absent"] = np.zeros_like(y), predicted, scores
    if labels == "classes":
        cases["one class"] = np.zeros_like(y), predicted, scores
        cases["a class that is absent"] = _rows(whole, rows[y < _CLASSES - 1])
    return cases


def _perfect(y: Array) -> Samples:
    if np.issubdtype(y.dtype, np.integer):
        return y, y.copy(), np.eye(_CLASSES, dtype=np.float32)[y]
    return y, np.nan_to_num(y), np.nan_to_num(y) if y.ndim == 2 else None


def _rows(samples: Samples, rows: Array) -> Samples:
    y, predicted, scores = samples
    return y[rows], predicted[rows], None if scores is None else scores[rows]


def _metric(metric: Part) -> Metric:
    return metric if isinstance(metric, Metric) else Metric(title=name_of(metric), function=metric)


def _judged(metric: Part, samples: Samples) -> tuple[float, str]:
    try:
        return _metric(metric)(*samples)
    except Exception as error:
        message = (
            f"raises {type(error).__name__}: {error}. Raise riskmatch.metrics.UndefinedMetricError "
            "where there is no value."
        )
        raise ConformanceError(name_of(metric), message) from error
