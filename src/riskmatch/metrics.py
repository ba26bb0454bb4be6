"""Metrics: how predictions are judged, as functions of ``(y, predicted, scores)``.

=====================  =============================================================================
``accuracy``           share of the samples whose predicted class is right
``balanced-accuracy``  mean over the classes of the share that is recognised
``macro-f1``           mean over the classes, or tags, of F1
``auroc``              area under the ROC curve; mean over the classes, each against the others, or
                       over the tags
``average-precision``  the same mean of the average precision; of tags it is ``mean-ap``
``log-loss``           mean negative logarithm of the probability of the true class
``brier``              mean squared distance of the probabilities from the true class; of two
                       classes, of the probability of the second
``ece``                expected calibration error of the predicted class, in 15 bins
``rmse``, ``mae``      root mean squared and mean absolute error, in the unit of the label
``r2``                 share of the variance of the label that is explained
=====================  =============================================================================

Those that scikit-learn has equal its functions, and take a small part of their time on the few
samples of a domain, which every evaluation judges. Classes without samples count in no mean, and
neither do tags that are missing for a sample. A metric that cannot be computed is missing, with the
reason.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch import registry
from riskmatch.registry import PartError

Array = NDArray[Any]
MetricFunction = Callable[[Array, Array, Array | None], float]
"""Maps labels (n, …), predicted labels (n, …) and scores (n, …), or None, to a number."""
ACCURACY = "accuracy"
"""The metric in whose words rules and published results are, and which counts samples."""
BINS = 15
"""Bins of the expected calibration error."""


class UndefinedMetricError(ValueError):
    """A metric cannot be computed on these samples; the message is the reason."""


@dataclass(frozen=True)
class MetricFacts:
    """What tables and selection need to know about a metric."""

    title: str
    """Its name in tables."""
    higher: bool = True
    """Whether higher values are better."""
    range: tuple[float | None, float | None] = (None, None)
    """Lowest and highest value; None where there is no bound."""

    @property
    def percent(self) -> bool:
        """Whether tables show it in per cent: it lies between 0 and 1."""
        return self.range == (0, 1)

    @property
    def scale(self) -> int:
        """Factor from values to the numbers of tables."""
        return 100 if self.percent else 1

    @property
    def unit(self) -> str:
        """The unit of tables, to follow the title."""
        return " in per cent" if self.percent else ""

    @property
    def direction(self) -> str:
        """A remark on metrics of which lower values are better, to end a caption with."""
        return "" if self.higher else "; lower is better"

    def gain(self, ours: float, theirs: float) -> float:
        """Difference of two values, positive where the first is better.

        Example:
            >>> MetricFacts("RMSE", higher=False).gain(1.5, 2.0)
            0.5
        """
        return ours - theirs if self.higher else theirs - ours

    def worst(self, values: Iterable[float]) -> float:
        """The worst of some values.

        Example:
            >>> MetricFacts("RMSE", higher=False).worst([1.5, 2.0])
            2.0
        """
        return min(values) if self.higher else max(values)

    def better(self, first: float, second: float) -> bool:
        """Whether the first of two values is better; NaN is not better than anything.

        Example:
            >>> MetricFacts("RMSE", higher=False).better(1.5, 2.0)
            True
        """
        return first > second if self.higher else first < second

    def shown(self, value: float | None) -> str:
        """A value as tables show it, without its unit; a dash where it is missing.

        Example:
            >>> MetricFacts("accuracy", range=(0, 1)).shown(0.8127), MetricFacts("R²").shown(0.8127)
            ('81.3', '0.8127')
        """
        if value is None or math.isnan(value):
            return "—"
        return f"{100 * value:.1f}" if self.percent else f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class Metric(MetricFacts):
    """A metric: its function, and what tables and selection need to know about it.

    One of your own is such a value, or a plain function, of which higher values are better.

    Example:
        >>> far = lambda y, predicted, scores: float(np.mean(abs(predicted - y) > 10))
        >>> Metric(title="more than 10 off", higher=False, range=(0, 1), function=far).percent
        True
    """

    function: MetricFunction = field(repr=False)

    def __call__(
        self, y: Array, predicted: Array, scores: Array | None = None
    ) -> tuple[float, str]:
        """The value and ``""``, or NaN and the reason why there is none."""
        if not len(y):
            return math.nan, "no samples"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = float(self.function(y, predicted, scores))
        except ValueError as error:
            return math.nan, str(error).rstrip(".") or type(error).__name__
        return value, "" if math.isfinite(value) else "not a finite number"


def find_metric(name: str) -> Metric:
    """The metric of a name: built in, announced, or ``package.module:function``.

    Raises:
        PartError: there is no such metric, or it cannot be called.

    Example:
        >>> find_metric("rmse").higher
        False
    """
    value = registry.find("metric", name).value
    if isinstance(value, Metric):
        return value
    if not callable(value):
        raise PartError(
            f"The metric '{name}' must be a riskmatch.metrics.Metric or a function of (y, "
            f"predicted, scores), got {value!r}."
        )
    return Metric(title=name.rpartition(":")[2], function=value)


def accuracy(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Share of the samples whose predicted label is right."""
    return float(np.mean(predicted == y))


def balanced_accuracy(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean over the classes of the share that is recognised."""
    _, label = np.unique(y, return_inverse=True)
    return float(np.mean(np.bincount(label, predicted == y) / np.bincount(label)))


def macro_f1(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean over the classes, or tags, of F1; those neither present nor predicted do not count."""
    if y.ndim == 1:
        names, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
        hits = np.bincount(codes[: len(y)], predicted == y, len(names))
        return float(np.mean(2 * hits / np.bincount(codes)))
    counts = [(a & (b > 0), a.sum() + (b > 0).sum()) for a, b in _tags(y, predicted)]
    parts = [2 * both.sum() / total for both, total in counts if total]
    return _mean(parts, "no tag is present or predicted")


def auroc(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean over the classes, each against the others, or the tags, of the area under the curve."""
    parts = []
    for positive, values in _one_vs_rest(y, scores):
        hits, alarms = _at_thresholds(positive, values)
        if hits[-1] and alarms[-1]:
            above = hits - np.diff(hits, prepend=0) / 2  # half of those with an equal score
            parts.append(np.diff(alarms, prepend=0) @ above / (hits[-1] * alarms[-1]))
    return _mean(parts, "one class is present")


def average_precision(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean over the classes, each against the others, or the tags, of the average precision."""
    pairs = list(_one_vs_rest(y, scores))
    if y.ndim == 1 and len(np.unique(y)) < 2:
        raise UndefinedMetricError("one class is present")
    parts = []
    for hits, alarms in (_at_thresholds(a, b) for a, b in pairs if a.any()):
        parts.append(np.diff(hits, prepend=0) @ (hits / (hits + alarms)) / hits[-1])
    return _mean(parts, "no tag is present")


def log_loss(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean negative logarithm of the probability of the true class."""
    scores = _scores(scores)
    smallest = np.finfo(scores.dtype).eps
    right = scores[np.arange(len(y)), y].astype(np.float64)
    return float(-np.mean(np.log(np.clip(right, smallest, 1 - smallest))))


def brier(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean squared distance of the probabilities from the true class; half of it of two classes."""
    scores = _scores(scores).astype(np.float64)
    distances = ((scores - np.eye(scores.shape[1])[y]) ** 2).sum(1)
    return float(distances.mean()) / (2 if scores.shape[1] == 2 else 1)


def ece(y: Array, predicted: Array, scores: Array | None = None) -> float:
    r"""Expected calibration error of the predicted class.

    .. math:: \sum_b \frac{n_b}{n} \bigl|\text{accuracy}_b - \text{confidence}_b\bigr|

    over equally wide bins b of the confidence. Reference: Naeini et al., *Obtaining Well Calibrated
    Probabilities Using Bayesian Binning*, AAAI 2015.
    """
    confidence = _scores(scores).max(1).astype(np.float64)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, (predicted == y) - confidence, minlength=BINS)
    return float(abs(gaps).sum() / len(y))


def rmse(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Root mean squared error."""
    return float(np.mean(np.sqrt(np.mean(_errors(y, predicted) ** 2, axis=0))))


def mae(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Mean absolute error."""
    return float(np.mean(abs(_errors(y, predicted))))


def r2(y: Array, predicted: Array, scores: Array | None = None) -> float:
    """Share of the variance of the label that is explained."""
    if len(y) < 2 or (y == y[0]).all():
        raise UndefinedMetricError("all labels are equal")
    total = ((y - y.mean(0, dtype=np.float64)) ** 2).sum(0)
    return float(np.mean(1 - (_errors(y, predicted) ** 2).sum(0) / total))


METRICS: dict[str, Metric] = {
    "accuracy": Metric(title="accuracy", range=(0, 1), function=accuracy),
    "balanced-accuracy": Metric(
        title="balanced accuracy", range=(0, 1), function=balanced_accuracy
    ),
    "macro-f1": Metric(title="macro F1", range=(0, 1), function=macro_f1),
    "auroc": Metric(title="AUROC", range=(0, 1), function=auroc),
    "average-precision": Metric(
        title="average precision", range=(0, 1), function=average_precision
    ),
    "mean-ap": Metric(title="mean AP", range=(0, 1), function=average_precision),
    "log-loss": Metric(title="log loss", higher=False, range=(0, None), function=log_loss),
    "brier": Metric(title="Brier score", higher=False, range=(0, None), function=brier),
    "ece": Metric(title="ECE", higher=False, range=(0, 1), function=ece),
    "rmse": Metric(title="RMSE", higher=False, range=(0, None), function=rmse),
    "mae": Metric(title="MAE", higher=False, range=(0, None), function=mae),
    "r2": Metric(title="R²", range=(None, 1), function=r2),
}
"""The built-in metrics by name."""


def _scores(scores: Array | None) -> Array:
    if scores is None:
        raise UndefinedMetricError("the task has no scores")
    if not np.isfinite(scores).all():
        raise UndefinedMetricError("a score is not finite")
    return scores


def _errors(y: Array, predicted: Array) -> NDArray[np.float64]:
    return np.asarray(predicted, np.float64) - y


def _at_thresholds(
    positive: NDArray[np.bool_], scores: Array
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of positive and of other samples from every distinct score on, highest first."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)
    hits = np.cumsum(positive[order])[last]
    return hits, np.flatnonzero(last) + 1 - hits


def _tags(y: Array, values: Array) -> Iterator[tuple[NDArray[np.bool_], Array]]:
    """For each tag (columns), the labels that are known and their ``values``."""
    for column, other in zip(y.T, values.T, strict=True):
        known = ~np.isnan(column)
        if known.any():
            yield column[known] > 0, other[known]


def _one_vs_rest(y: Array, scores: Array | None) -> Iterator[tuple[NDArray[np.bool_], Array]]:
    """Binary labels and scores: of each tag, of the second of two classes, or of every class."""
    scores = _scores(scores)
    if y.ndim == 2:
        yield from _tags(y, scores)
    elif scores.shape[1] == 2:
        yield y == 1, scores[:, 1]
    else:
        present = np.unique(y)
        yield from ((y == label, scores[:, label]) for label in present)


def _mean(values: list[Any], reason: str) -> float:
    """The mean of those that are defined."""
    defined = [float(value) for value in values if not math.isnan(value)]
    if not defined:
        raise UndefinedMetricError(reason)
    return math.fsum(defined) / len(defined)
