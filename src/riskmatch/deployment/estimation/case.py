"""What an estimator of accuracy is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.metrics import METRICS, Metric
from riskmatch.runs.predictions import Predictions

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """What a model says on n samples of a site whose labels are unknown."""

    predicted: Array
    """(n,) predicted classes."""
    scores: Array = field(repr=False)
    """(n, c) probabilities of the classes."""
    features: Array = field(repr=False, default_factory=lambda: np.empty((0, 0)))
    """(p, d) features of some of the samples; d is 0 unless they can be compared with those of
    left-out sites."""

    @property
    def confidence(self) -> Array:
        """(n,) probability of the predicted class."""
        return np.asarray(np.take_along_axis(self.scores, self.predicted[:, None], 1)[:, 0], float)


@dataclass(frozen=True, eq=False)
class Case:
    """A site to estimate a metric on."""

    name: str
    """Name of the metric."""
    site: Unlabelled
    validation: Predictions
    """Predictions of the same model on validation samples of the domains it was trained on: with
    ``label``, ``predicted`` and ``confidence``; ``scores`` may be None."""
    others: Sequence[LeftOutSite]
    """Sites that were left out, without this one and its siblings."""
    metric: Metric = METRICS["accuracy"]

    @property
    def right(self) -> NDArray[np.bool_]:
        """(v,) whether each validation sample is predicted correctly."""
        return np.asarray(self.validation.predicted == self.validation.label)

    def value(self, site: LeftOutSite) -> float:
        """The metric on a left-out site."""
        if self.name in site.metrics:
            return site.metrics[self.name]
        value, reason = self.metric(site.y, site.predicted, site.scores)
        if reason:
            raise ValueError(f"{self.name} of '{site.name}' cannot be computed: {reason}")
        return value


Estimator = Callable[[Case], float]
"""Returns an estimate of the metric, or raises ``ValueError`` with the reason why it has none."""


def for_accuracy(case: Case) -> None:
    """Raise ``ValueError`` for other metrics than the accuracy."""
    if case.name != "accuracy":
        raise ValueError("it estimates the accuracy alone")


def by_site(values: Mapping[str, float], sites: Sequence[LeftOutSite]) -> list[list[float]]:
    """Values of left-out sites, those of siblings together."""
    groups = dict[tuple[str, ...], list[float]]()
    for site in sites:
        groups.setdefault(site.siblings or (site.name,), []).append(values[site.name])
    return [*groups.values()]
