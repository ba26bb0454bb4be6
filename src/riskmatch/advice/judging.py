"""Judge methods by the domains that were left out: what to expect, what helps, what hurts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from riskmatch.advice.baselines import BASELINES, TRIVIAL
from riskmatch.deployment.folder import Expected
from riskmatch.metrics import ACCURACY, METRICS, MetricFacts
from riskmatch.report.density import finite_risks
from riskmatch.report.figures.canvas import render
from riskmatch.report.figures.risks import density_plot, label_risks
from riskmatch.report.selected import RowKey, Selected, choices_by_run
from riskmatch.report.tables import Gain, decimals_of
from riskmatch.report.titles import method_title
from riskmatch.runs import predictions
from riskmatch.runs.config import variant
from riskmatch.statistics import UNITS, Unit, max_t, new_site_interval
from riskmatch.sweep import PlannedRun

LEVEL = 0.9
"""Level of the prediction interval."""
TOLERANCE = 0.02
"""Loss that counts as harm where there is no interval, as predictions are missing or the metric is
no mean over samples: of a metric between 0 and 1, or as a share of another."""
SIGNIFICANT = 0.05
"""Adjusted p-value of a gain below which a method beats ERM."""
UNIT: Unit = "new-domain"
"""What the gains generalise over."""

LeftOut = Sequence[tuple[str, ...]]
"""Sets of domains that were left out, each one domain or siblings."""


@dataclass(frozen=True)
class MethodResult:
    """The metric of a method on the domains that were left out."""

    variant: str
    values: Mapping[str, float]
    """The metric by domain."""
    expected: Expected
    gain: Gain | None
    """Differences from ERM in the unit of tables, positive where the method is better, one for each
    set of domains; None for ERM itself."""
    p: float | None = None
    """P-value of the gain for a new domain, adjusted for the number of methods; None for ERM and
    trivial baselines."""

    @property
    def title(self) -> str:
        """Name of the method in tables."""
        return method_title(self.variant)

    @property
    def beats_erm(self) -> bool:
        """Whether the mean gain is positive and its adjusted p-value is below 0.05."""
        better = self.gain is not None and (self.gain.mean or 0) > 0
        return better and self.p is not None and self.p < SIGNIFICANT

    def to_json(self) -> dict[str, Any]:
        """Result as plain JSON values."""
        gain: dict[str, Any] | None = None
        if self.gain is not None:
            gain = {"points": self.gain.mean, "half_of_95_interval": self.gain.error}
            gain |= {"unit": UNITS[UNIT], "adjusted_p": self.p}
        return {
            "method": self.variant,
            "values": dict(self.values),
            "expected": self.expected.to_json(),
            "gain_over_erm": gain,
            "beats_erm": self.beats_erm,
        }


@dataclass(frozen=True)
class Harm:
    """A domain on which matching is worse than ERM."""

    variant: str
    domain: str
    metric: MetricFacts
    value: float
    erm_value: float
    interval: float | None = None
    """Half of the 95 % interval of the difference, paired over samples; None without predictions,
    where a loss of more than ``TOLERANCE`` counts."""
    risk: float | None = None
    """Mean risk of the domain."""
    erm_risk: float | None = None
    acts: bool = True
    """Whether matching has started by the step that was chosen."""
    figure: bytes = field(default=b"", repr=False)
    """PNG of the risks of all domains with ERM and with matching."""

    def __str__(self) -> str:
        by, shown = "", self.metric.shown
        if self.interval is not None:
            by = f" (difference ± {shown(self.interval)})"
        change = "lowers" if self.metric.higher else "raises"
        risk = ""
        if self.risk is not None and self.erm_risk is not None:
            risk = f"; its mean risk changes from {self.erm_risk:.3f} to {self.risk:.3f}"
        early = "; not by matching, which starts after the step chosen" * (not self.acts)
        return (
            f"{method_title(self.variant)} {change} the {self.metric.title} on {self.domain} from "
            f"{shown(self.erm_value)} to {shown(self.value)}{by}{risk}{early}."
        )

    def to_json(self) -> dict[str, Any]:
        """Harm as plain JSON values."""
        left_out = ("figure", "metric")
        values = {name: value for name, value in vars(self).items() if name not in left_out}
        return {"method": values.pop("variant"), **values}


def prediction_interval(
    values: Sequence[float | Sequence[float]], level: float = LEVEL, metric: str = ACCURACY
) -> Expected:
    """What to expect of a metric on one further domain, by :func:`new_site_interval`.

    Args:
        values: the metric on n domains, one or more. Siblings are one draw of a domain: a sequence
            of their values, which count by their mean.
        level: probability that the metric on the new domain is in the interval.
        metric: name of the metric, a built-in one.

    Example:
        >>> expected = prediction_interval([0.7, 0.8, [0.72, 0.78]])
        >>> str(expected), expected.at_least
        ('0.750 [0.559, 0.941] (90%)', 'at least the worst seen (70.0%) with probability 0.75')
    """
    facts, sites = METRICS[metric], [np.atleast_1d(site).tolist() for site in values]
    mean = fmean(map(fmean, sites))
    low, high = new_site_interval(sites, level, facts.range)
    worst = facts.worst(value for site in sites for value in site)
    # On a log scale the mean may lie outside.
    return Expected(mean, min(low, mean), max(high, mean), level, metric, worst, len(sites))


def method_results(
    values: Mapping[str, Mapping[str, float]], left_out: LeftOut, metric: str = ACCURACY
) -> list[MethodResult]:
    """Results of methods from a metric by variant and domain; ``erm`` is one of the variants.

    Siblings count as one domain: with their mean in gains, with a value each in what is expected.
    """
    facts = METRICS[metric]
    sites = {
        name: [[by_domain[domain] for domain in group] for group in left_out]
        for name, by_domain in values.items()
    }
    means = {name: [fmean(site) for site in by_group] for name, by_group in sites.items()}
    shown = [facts.scale * value for by_group in means.values() for value in by_group]
    decimals = 1 if facts.percent else decimals_of(shown)

    def gain(ours: list[float]) -> Gain:
        pairs = zip(ours, means["erm"], strict=True)
        return Gain(tuple(facts.scale * facts.gain(*pair) for pair in pairs), decimals)

    gains = {name: gain(by_group) for name, by_group in means.items() if name != "erm"}
    compared = [name for name in gains if name not in TRIVIAL]
    tables = [[[value] for value in gains[name].values] for name in compared]
    p = dict(zip(compared, max_t(tables, UNIT), strict=True))
    return [
        MethodResult(
            name,
            by_domain,
            prediction_interval(sites[name], metric=metric),
            gains.get(name),
            p.get(name),
        )
        for name, by_domain in values.items()
    ]


def over_trivial(results: Sequence[MethodResult]) -> MethodResult | None:
    """The trivial baseline, with the paired gain of the recommended method over it."""
    for one in results:
        if one.variant in TRIVIAL and one.gain is not None:
            gain = recommended(results).gain
            ours = gain.values if gain else (0.0,) * len(one.gain.values)
            pairs = zip(ours, one.gain.values, strict=True)
            return replace(one, gain=replace(one.gain, values=tuple(a - b for a, b in pairs)))
    return None


def recommended(results: Sequence[MethodResult]) -> MethodResult:
    """The best of the methods that beat ERM, or ERM; riskmatch does not train baselines."""
    trained = [one for one in results if one.variant not in BASELINES]
    better = [one for one in trained if one.beats_erm]
    (erm,) = (one for one in trained if one.variant == "erm")
    pick = max if erm.expected.facts.higher else min
    return pick(better, key=lambda one: one.expected.value, default=erm)


def best_draw(
    selected: Selected, name: str, planned: Sequence[PlannedRun], left_out: LeftOut
) -> PlannedRun:
    """A run with the hyper-parameters of the best mean over the domains left out.

    Each run counts at the step that the rule chooses for it. All domains are known by now, so that
    comparing draws on them reveals nothing of a new one; what is expected does not use it.
    """
    runs = {run.config.id: run for run in planned if variant(run.config) == name}
    chosen = choices_by_run(selected)
    chosen = chosen[chosen["run"].isin(runs.keys())]
    draws = chosen["run"].map({id: run.draw for id, run in runs.items()})
    group = {domain: number for number, domains in enumerate(left_out) for domain in domains}
    by_group = chosen["value"].groupby([draws, chosen["test_domain"].map(group)]).agg(fmean)
    # Where runs failed, a draw with more groups is better; of equal draws the first is chosen.
    sign = 1 if selected.facts.higher else -1
    by_draw = {draw: (len(means), sign * fmean(means)) for draw, means in by_group.groupby(level=0)}
    best = max(by_draw, key=by_draw.__getitem__)
    return next(run for run in runs.values() if run.draw == best)


def held_out_checks(selected: Selected, name: str) -> dict[str, tuple[Expected, float]]:
    """What to expect on each domain as the others tell, and what is, by domain.

    The runs that hold out another domain v besides a domain d are those of advice without d: their
    values on v, at the draw and step chosen for d, give the interval for d. Empty unless pairs
    of domains were held out.

    Args:
        selected: what the rule chose.
        name: variant of the method.
    """
    key = RowKey(name, "")
    cases = selected.part(key, selected.cases)
    draws = dict(zip(cases["run"], cases["draw"], strict=True))
    pairs: list[Any] = list(cases[cases["test_domain"].isna()].itertuples())
    evaluations: Any = selected.results.evaluations.set_index(["run", "step"])
    reported = selected.rule.reported
    checks = {}
    for domain, choice in _chosen(selected, name).items():
        values = [
            float(evaluations.at[(pair.run, choice.step), f"{selected.metric}/{reported}/{other}"])
            for pair in pairs
            if domain in pair.test_domains
            if pair.draw == draws[choice.run] and (pair.run, choice.step) in evaluations.index
            for other in pair.test_domains
            if other != domain
        ]
        if len(values) > 1:
            checks[domain] = prediction_interval(values, metric=selected.metric), choice.value
    return checks


def harms(selected: Selected, runs: Path, domains: Sequence[str]) -> Iterator[Harm]:
    """Domains on which RDM is worse than ERM by more than the interval of the difference.

    Args:
        selected: what the rule chose.
        runs: folder of the runs.
        domains: all domains of the data set.
    """
    erm, reported, facts = _chosen(selected, "erm"), selected.rule.reported, selected.facts
    matching = [key.variant for key in selected.rows if key.variant.split()[0] == "rdm"]
    for name, choices in ((name, _chosen(selected, name)) for name in matching):
        for domain, choice in choices.items():
            base = erm[domain]
            harm = Harm(name, domain, facts, choice.value, base.value, acts=choice.acts)
            loss = facts.gain(base.value, choice.value)
            worse = loss > TOLERANCE * (1 if facts.percent else abs(base.value))
            try:
                if selected.metric != ACCURACY:
                    raise ValueError("the metric is no mean over samples")
                after = predictions.read(runs / choice.run, choice.step)
                before = predictions.read(runs / base.run, base.step)
            except (OSError, ValueError):
                if worse:
                    yield harm
                continue
            ours, theirs = after[domain][reported], before[domain][reported]
            change = (ours.predicted == ours.label) * 1.0 - (theirs.predicted == theirs.label)
            half = float(1.96 * change.std() / math.sqrt(len(change)))
            if change.mean() + half < 0:
                panels = {
                    "ERM": label_risks(before, [domain]),
                    method_title(name): label_risks(after, [domain]),
                }
                title = f"Risks with {domain} left out; ticks mark the means"
                yield replace(
                    harm,
                    interval=half,
                    risk=float(np.mean(finite_risks(ours))),
                    erm_risk=float(np.mean(finite_risks(theirs))),
                    figure=render(density_plot(panels, title, "", domains).draw(), "png"),
                )


def harm_lines(hurts: Sequence[Harm]) -> list[str]:
    """A line per harm, or per method where it is worse on several domains."""
    lines = []
    for name in dict.fromkeys(one.variant for one in hurts):
        first, *more = own = [one for one in hurts if one.variant == name]
        shown, change = first.metric.shown, "lowers" if first.metric.higher else "raises"
        parts = (f"{h.domain} from {shown(h.erm_value)} to {shown(h.value)}" for h in own)
        line = f"{method_title(name)} {change} the {first.metric.title} on {len(own)} domains: "
        lines.append(f"{line}{', '.join(parts)}." if more else str(first))
    return lines


def _chosen(selected: Selected, name: str) -> dict[str, Any]:
    """Row of :attr:`Selected.chosen` of a method by domain."""
    choices: Any = selected.part(RowKey(name, ""), selected.chosen).itertuples()
    return {choice.test_domain: choice for choice in choices}
