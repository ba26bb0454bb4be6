"""Estimators judged by their errors on left-out sites, the choice of one, and its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from riskmatch.deployment.estimation.baselines import left_out_mean, validation
from riskmatch.deployment.estimation.calibrated import calibrated_confidence
from riskmatch.deployment.estimation.case import Case, Estimator, Unlabelled, by_site
from riskmatch.deployment.estimation.difference import difference_of_confidences
from riskmatch.deployment.estimation.nearest import nearest_site
from riskmatch.deployment.estimation.threshold import average_thresholded_confidence
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.statistics import even, new_site_interval

ESTIMATORS: dict[str, Estimator] = {
    "thresholded": average_thresholded_confidence,
    "difference": difference_of_confidences,
    "calibrated": calibrated_confidence,
    "nearest": nearest_site,
}
"""The built-in estimators by name."""
EXPECTED = "left-out mean"
BASELINES: dict[str, Estimator] = {EXPECTED: left_out_mean, "validation": validation}
"""What is expected without a look at the new site."""


@dataclass(frozen=True)
class Judged:
    """An estimator, what it says of the new site, and its errors on left-out sites."""

    name: str
    raw: float
    """What the estimator says of the new site; NaN where it says nothing."""
    known: Mapping[str, tuple[float, float]] = field(repr=False)
    """By left-out site what it says, of a model trained without the site, and the metric."""
    sites: Sequence[LeftOutSite] = field(repr=False)
    """The left-out sites."""
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    """Lowest and highest value of the metric."""
    missing: str = ""
    """Why it says nothing."""

    @property
    def value(self) -> float:
        """The estimate: what the estimator says, corrected by its mean error on left-out sites."""
        return self._corrected(self.raw, self.sites)

    @property
    def estimates(self) -> dict[str, float]:
        """Estimates of the left-out sites, each corrected by the errors on the others."""
        estimates = {}
        for site in self.sites:
            others = [one for one in self.sites if one.name not in {site.name, *site.siblings}]
            estimates[site.name] = self._corrected(self.known[site.name][0], others)
        return estimates

    @property
    def error(self) -> float:
        """Mean absolute error of :attr:`estimates`; siblings count as one."""
        errors = {name: abs(self.known[name][1] - value) for name, value in self.estimates.items()}
        return fmean(map(fmean, by_site(errors, self.sites))) if errors else math.nan

    def interval(self, level: float) -> tuple[float, float]:
        """Interval of the metric on the new site, from the errors on left-out sites.

        It is :func:`riskmatch.statistics.new_site_interval` of what the estimator says plus each
        error, and for the mean of the left-out sites that of the metric on them. Where the metric
        has one bound, errors are relative: the ratio of distances from the bound.
        """
        if self.name == EXPECTED:
            values = {name: true for name, (_, true) in self.known.items()}
        else:
            values = self._shifted(self.raw, self.sites)
        return new_site_interval(by_site(values, self.sites), level, self.bounds)

    def _shifted(self, raw: float, sites: Sequence[LeftOutSite]) -> dict[str, float]:
        """What the estimator says, plus its error on each of some sites."""
        low, high = self.bounds
        pairs = [(site.name, *self.known[site.name]) for site in sites]
        if (low is None) == (high is None):
            return {name: raw + true - value for name, value, true in pairs}
        bound = low if low is not None else high
        assert bound is not None
        return {
            name: bound + (raw - bound) * (true - bound) / (value - bound or math.inf)
            for name, value, true in pairs
        }

    def _corrected(self, raw: float, sites: Sequence[LeftOutSite]) -> float:
        if self.name == EXPECTED or not sites:
            return raw
        mean = fmean(map(fmean, by_site(self._shifted(raw, sites), sites)))
        low, high = self.bounds
        mean = mean if low is None else max(low, mean)
        return mean if high is None else min(high, mean)


def judge(estimators: Mapping[str, Estimator], case: Case) -> list[Judged]:
    """Estimate a metric with every estimator, and judge each by the left-out sites."""
    cases = {site.name: (left_out_case(site, case), case.value(site)) for site in case.others}
    judged, bounds = [], case.metric.range
    for name, estimator in estimators.items():
        try:
            raw = float(estimator(case))
            known = {site: (float(estimator(one)), true) for site, (one, true) in cases.items()}
            judged.append(Judged(name, raw, known, case.others, bounds))
        except ValueError as error:
            judged.append(Judged(name, math.nan, {}, (), bounds, str(error)))
    return judged


def choose(judged: Sequence[Judged]) -> Judged:
    """The estimator with the smallest error on left-out sites; a baseline unless it is beaten."""
    usable = [one for one in judged if not one.missing] or judged
    return min(usable, key=lambda one: (one.error, one.name not in BASELINES))


def left_out_case(site: LeftOutSite, case: Case) -> Case:
    """The case of a left-out site, which has neither its labels nor its siblings.

    It has no more samples than the new site, so that errors and distances vary as they do there.
    """
    together, new = {site.name, *site.siblings}, case.site
    assert site.scores is not None
    rows = even(len(site.predicted), len(new.predicted))
    some = even(len(site.features), len(new.features))
    return replace(
        case,
        site=Unlabelled(site.predicted[rows], site.scores[rows], site.features[some]),
        validation=site.validation,
        others=[other for other in case.others if other.name not in together],
    )
