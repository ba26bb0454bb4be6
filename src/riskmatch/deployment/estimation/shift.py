"""How far a site is from those that calibrate estimates on it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from riskmatch.deployment.estimation.calibration import left_out_case
from riskmatch.deployment.estimation.case import Case, by_site
from riskmatch.deployment.estimation.nearest import apart
from riskmatch.statistics import ks_distance, new_site_interval


@dataclass(frozen=True)
class Shift:
    """A distance of the new site, beside those of left-out sites."""

    quantity: str
    value: float
    largest: float
    """The largest distance of a left-out site."""
    limit: float
    """Upper end of the interval of the distance of one new site, made of those of left-out sites,
    at least 1/n of n samples; the site is unlike them beyond it."""

    @property
    def unlike(self) -> bool:
        """Whether the site is unlike all left-out sites."""
        return self.value > self.limit


def of_confidences(case: Case) -> float:
    """Largest gap between the distributions of confidence on the site and on validation samples."""
    return ks_distance(case.site.confidence, case.validation.confidence.astype(float))


def of_features(case: Case) -> float:
    """Distance of the features from those of the nearest left-out site, from 0 to 1."""
    return min(apart(case.site.features, other.features) for other in case.others)


SHIFTS: dict[str, Callable[[Case], float]] = {
    "confidences, from validation": of_confidences,
    "features, from the nearest left-out site": of_features,
}


def shifts(case: Case, level: float) -> list[Shift]:
    """Distances that can be computed of the new site and of left-out sites."""
    found = []
    for quantity, distance in SHIFTS.items():
        with suppress(ValueError):  # its features cannot be compared
            value = distance(case)
            known = {o.name: distance(left_out_case(o, case)) for o in case.others}
            limit = new_site_interval(by_site(known, case.others), level, (0, None))[1]
            # Distances of features that do not differ are 0 or, by chance, up to about 1/n.
            least = 1 / (len(case.site.features) or len(case.site.predicted))
            found.append(Shift(quantity, value, max(known.values()), max(limit, least)))
    return found
