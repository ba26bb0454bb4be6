"""An estimate at a site without labels, as facts, tables, JSON and one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from riskmatch.deployment.estimation.calibration import BASELINES, EXPECTED, Judged
from riskmatch.deployment.estimation.shift import Shift
from riskmatch.metrics import MetricFacts
from riskmatch.report.render import render_estimate
from riskmatch.report.tables import Amount, Cell, Column, Table, capitalised, number


@dataclass(frozen=True, eq=False)
class Estimated:
    """A metric at a site without labels."""

    site: str
    """Name of the site."""
    samples: int
    metric: str
    facts: MetricFacts
    """What is known about the metric."""
    used: Judged
    """The estimator that is used: its estimate, and its errors on left-out sites."""
    interval: tuple[float, float]
    """Interval of the metric on the new site."""
    level: float
    """Probability that the metric is in the interval."""
    judged: Sequence[Judged] = field(repr=False)
    """All estimators, and the baselines."""
    shifts: Sequence[Shift]
    """Distances of the site from those that calibrate the estimate."""
    shares: Mapping[str, tuple[float, float]] = field(repr=False)
    """Mean confidence and shares of the predicted classes: in validation, and on the site."""
    columns: Sequence[str]
    """Sentences on columns of a table that hold what training did not."""
    unusual: Sequence[Mapping[str, Any]] = field(repr=False)
    """The samples that are furthest from held-out ones, or the least confident."""

    @property
    def value(self) -> float:
        """The estimate."""
        return self.used.value

    @property
    def expected(self) -> Judged:
        """Mean of the left-out sites, which is expected without a look at the site."""
        return next(one for one in self.judged if one.name == EXPECTED)

    @property
    def unlike(self) -> bool:
        """Whether the site is unlike all sites that calibrate the estimate."""
        return any(shift.unlike for shift in self.shifts)

    def lines(self) -> list[str]:
        """The findings as facts."""
        facts, own = self.facts, self.used
        unit, points = " %" * facts.percent, " points" * facts.percent

        def between(ends: tuple[float, float]) -> str:
            return (
                f"{100 * self.level:g} % interval {facts.shown(ends[0])} to {facts.shown(ends[1])}"
            )

        beaten = own.name in BASELINES
        return [
            f"{facts.title} at {self.site}, estimated without labels: "
            f"{facts.shown(self.value)}{unit}, {between(self.interval)} for one new site",
            f"expected without a look at the site: {facts.shown(self.expected.value)}{unit}, "
            f"{between(self.expected.interval(self.level))}",
            f"estimator: {own.name}, mean absolute error {facts.shown(own.error)}{points} on "
            f"{len(own.known)} left-out sites; that of their mean "
            f"{facts.shown(self.expected.error)}{points}",
            *["no estimator is better on left-out sites than a baseline, which is used"] * beaten,
            *(
                f"unlike all left-out sites, the interval may not hold: {shift.quantity} "
                f"{Amount(shift.value)}, of left-out sites at most {Amount(shift.largest)}, limit "
                f"{Amount(shift.limit)}"
                for shift in self.shifts
                if shift.unlike
            ),
            *self.columns,
        ]

    def table(self) -> Table:
        """Every estimator with its estimate, its interval and its error on left-out sites."""
        facts = self.facts

        def cell(value: float) -> Cell:
            return number(value * facts.scale, 1) if facts.percent else Amount(value)

        def ends(one: Judged) -> str:
            return " to ".join(map(facts.shown, one.interval(self.level)))

        return Table.of(
            f"{capitalised(facts.title)}{facts.unit} at {self.site}, and mean absolute error on "
            f"left-out sites{facts.direction}.",
            [
                Column("estimator", lambda one: one.name + " (used)" * (one is self.used)),
                Column("estimate", lambda one: cell(one.value)),
                Column(
                    f"{100 * self.level:g} % interval", lambda o: None if o.missing else ends(o)
                ),
                Column("error on left-out sites", lambda one: cell(one.error)),
                Column("not available", lambda one: one.missing, optional=True),
            ],
            self.judged,
        )

    def sites(self) -> Table:
        """The metric on every left-out site, and what the estimator said of it."""
        own, scale = self.used, self.facts.scale
        return Table.of(
            f"{capitalised(self.facts.title)}{self.facts.unit} on left-out sites.",
            [
                Column("site", lambda name: name),
                Column("estimated", lambda name: Amount(scale * own.estimates[name])),
                Column("true", lambda name: Amount(scale * own.known[name][1])),
            ],
            own.known,
        )

    def changes(self) -> Table:
        """Confidence and predicted classes in validation and on the site."""
        return Table.of(
            "Mean confidence and shares of predicted classes, in per cent.",
            [
                Column("quantity", lambda row: row[0]),
                Column("validation", lambda row: 100 * row[1][0]),
                Column("new site", lambda row: 100 * row[1][1]),
            ],
            self.shares.items(),
        )

    def distances(self) -> Table:
        """Distances of the site and of left-out sites."""
        return Table.of(
            "Distances of the site, from 0 to 1.",
            [
                Column("quantity", lambda row: row.quantity + " (unlike)" * row.unlike),
                Column("new site", lambda row: Amount(row.value)),
                Column("left-out sites, at most", lambda row: Amount(row.largest)),
                Column("limit", lambda row: Amount(row.limit)),
            ],
            self.shifts,
        )

    def rows(self) -> Table:
        """The most unusual samples, where they are no pictures."""

        def feature(name: str) -> Column:
            return Column(name, lambda one: (one["row"] or {}).get(name))

        columns = [
            Column("sample", itemgetter("name")),
            Column("predicted", itemgetter("predicted")),
            Column("confidence (%)", lambda one: 100 * one["confidence"]),
            Column("distance", lambda one: Amount(one["distance"]), optional=True),
            *map(feature, self.unusual[0]["row"] or ()),
        ]
        return Table.of("The most unusual samples.", columns, self.unusual)

    def to_json(self) -> dict[str, Any]:
        """Result as plain JSON values."""
        columns = ("name", "raw", "value", "error", "missing")
        return {
            "site": self.site,
            "samples": self.samples,
            "metric": self.metric,
            "value": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "level": self.level,
            "estimator": self.used.name,
            "expected": self.expected.value,
            "unlike": self.unlike,
            "shifts": [vars(shift) for shift in self.shifts],
            "estimators": [{name: getattr(one, name) for name in columns} for one in self.judged],
            "left_out": {
                name: {"estimated": value, "true": self.used.known[name][1]}
                for name, value in self.used.estimates.items()
            },
            "unusual": [one["name"] for one in self.unusual],
        }

    def html(self) -> str:
        """The findings as one page."""
        return render_estimate(
            title=capitalised(f"{self.facts.title} at {self.site}, without labels"),
            findings=self.lines(),
            estimators=self.table(),
            sites=self.sites(),
            distances=self.distances(),
            changes=self.changes(),
            unusual=self.unusual,
            unusual_rows=self.rows(),
        )
