"""Advice with the results that it rests on: in words, as JSON and as one HTML page."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riskmatch.advice.advice import Advice
from riskmatch.advice.baselines import BASELINES
from riskmatch.advice.judging import (
    SIGNIFICANT,
    UNIT,
    Harm,
    MethodResult,
    harm_lines,
    over_trivial,
    recommended,
)
from riskmatch.deployment.folder import Expected, own_checksum
from riskmatch.metrics import ACCURACY, MetricFacts
from riskmatch.report.render import render_advice
from riskmatch.report.run_tables import settings_table
from riskmatch.report.tables import (
    Amount,
    Cell,
    Column,
    Table,
    capitalised,
    decimals_of,
    number,
)
from riskmatch.report.titles import data_title
from riskmatch.selection import RULES
from riskmatch.statistics import UNITS

FILE, PAGE = "advice.json", "advice.html"
_OPTIMISTIC = (
    "The recommended method was chosen by its {title} on these domains, so that its expected "
    "{title} is slightly too {high}."
)


@dataclass(frozen=True)
class Advised:
    """Advice with the results that it rests on."""

    advice: Advice
    selection: str
    """Rule that chose hyper-parameters and steps without the domain left out."""
    left_out: Sequence[tuple[str, ...]]
    """Sets of domains that were left out in turn, each one domain or siblings."""
    results: Sequence[MethodResult]
    hurts: Sequence[Harm]
    """Where risk matching is worse than ERM."""
    folder: Path
    """Folder of ``advice.json``, ``advice.html`` and the runs."""
    checks: Mapping[str, tuple[Expected, float]] = field(default_factory=dict)
    """What to expect on each domain, estimated without it, and what is."""
    data_dir: Path | None = None
    """Folder that was searched first for the files of the data set."""
    failures: Sequence[str] = ()
    """Messages on runs that failed and are left out."""
    siblings: str = ""
    """How siblings were looked for, and what was found."""

    @property
    def command(self) -> str:
        """The command that trains the recommended method on all domains."""
        words = ["riskmatch", "train", self.advice.data, "--all-domains", "--advice"]
        where = [] if self.data_dir is None else ["--data-dir", str(self.data_dir)]
        return shlex.join([*words, str(self.folder / FILE), *where])

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.folder / PAGE

    @property
    def best(self) -> MethodResult:
        """The recommended method."""
        return recommended(self.results)

    @property
    def trivial(self) -> MethodResult | None:
        """The trivial baseline, with the gain of the recommended method over it."""
        return over_trivial(self.results)

    @property
    def beats_trivial(self) -> bool:
        """Whether the gain over the trivial baseline exceeds half of its 95 % interval."""
        gain = self.trivial and self.trivial.gain
        return bool(gain and gain.error is not None and (gain.mean or 0) > gain.error)

    @property
    def metric(self) -> MetricFacts:
        """What is known about the metric."""
        return self.best.expected.facts

    @property
    def sentences(self) -> list[str]:
        """The findings, in words."""
        best, metric = self.best, self.metric
        expected, unit, points = best.expected, " %" * metric.percent, " points" * metric.percent
        lines = [
            f"Expected {metric.title} on a new domain with {best.title}: "
            f"{metric.shown(expected.value)}{unit}, with a 90 % prediction interval for one new "
            f"domain from {metric.shown(expected.low)} to {metric.shown(expected.high)}{unit}; "
            f"{expected.at_least}.",
        ]
        if self.trivial is not None:
            name, value = self.trivial.title, metric.shown(self.trivial.expected.value)
            lines.append(f"For comparison, the {name} of the other domains: {value}{unit}.")
            if not self.beats_trivial:
                lines.insert(
                    0,
                    f"{best.title} does not beat the {name} of the other domains beyond the 95 % "
                    f"interval of the difference, {self.trivial.gain}{points} ({UNITS[UNIT]}).",
                )
        better = [one for one in self.results if one.beats_erm]
        lines += [
            f"{one.title} beats ERM by {one.gain}{points} ({UNITS[UNIT]}, adjusted p {one.p:.2g})."
            for one in better
        ]
        if best.variant == "erm":
            others = "No method of riskmatch" if better else "No method"
            lines.append(
                f"{others} beats ERM at an adjusted p-value below {SIGNIFICANT}, so that ERM, the "
                "simplest, is recommended."
            )
        if names := " and ".join(one.title for one in better if one.variant in BASELINES):
            lines.append(
                f"{capitalised(names)}: scikit-learn's; riskmatch train does not train it."
            )
        lines += [*filter(None, [self.siblings]), *harm_lines(self.hurts)]
        matched = any(one.variant.split()[0] == "rdm" for one in self.results)
        if matched and not self.hurts:
            lines.append("Risk matching makes no domain worse than ERM beyond its interval.")
        return lines

    @property
    def notes(self) -> list[str]:
        """How the numbers were computed."""
        n, metric = len(self.left_out), self.metric
        inside = [one.low <= value <= one.high for one, value in self.checks.values()]
        coverage = (
            f"Check of the interval: estimated without a domain, it contains the {metric.title} of "
            f"{self.best.title} on that domain in {sum(inside)} of {len(inside)} cases; 90 % are "
            "promised."
        )
        values = "accuracies" if metric.title == ACCURACY else f"values of the {metric.title}"
        bounds = ["" if end is None else f"{metric.scale * end:g}" for end in metric.range]
        cut = f", cut to [{bounds[0]}, {bounds[1]}]" * all(bounds)
        scale = " on the log scale" * (any(bounds) and not all(bounds))
        optimistic = _OPTIMISTIC.format(title=metric.title, high="high" if metric.higher else "low")
        compared = sum(one.p is not None for one in self.results)
        few = (
            f"{n} domains are too few for an adjusted p-value below {SIGNIFICANT} unless "
            f"differences are normally distributed: by sign flips none is below {2 ** (1 - n):.2g}."
        )
        together = [" and ".join(group) for group in self.left_out if len(group) > 1]
        return [
            f"Each of {n} domains was left out in turn; hyper-parameters and steps were chosen by "
            f"{self.selection} ({RULES[self.selection].summary.replace(ACCURACY, metric.title)}), "
            "without the domain left out.",
            *([f"Left out together, and counted as one: {'; '.join(together)}."] * bool(together)),
            f"Prediction interval: of a random-effects model of the n = {n} {values}{scale}, with "
            f"a half-normal prior of the spread between domains{cut}. It is for the "
            f"{metric.title} on one new domain, not for the mean. The probability of the worst "
            "seen, n / (n + 1), holds for domains of any distribution, if the new one is drawn as "
            "the others were.",
            f"Gain over ERM: mean paired difference over domains ± half of its 95 % t-interval for "
            f"{UNITS[UNIT]}, for each method by itself; p-values are adjusted for {compared} "
            "methods together (max-t of rotations).",
            *([few] if 2 ** (1 - n) >= SIGNIFICANT else []),
            *([coverage] if inside else []),
            *([optimistic] if self.best.variant != "erm" else []),
            *(f"{message} Failed runs are left out." for message in self.failures),
        ]

    @property
    def table(self) -> Table:
        """The metric by method and domain left out, prediction interval, and gain over ERM."""
        metric = self.metric
        levels = [metric.scale * v for one in self.results for v in one.values.values()]
        decimals = 1 if metric.percent else decimals_of(levels)

        def cell(value: float) -> Cell:
            return number(metric.scale * value, decimals)

        def value(domain: str) -> Column:
            return Column(domain, lambda one: cell(one.values[domain]))

        def interval(one: MethodResult) -> str:
            return f"{metric.shown(one.expected.low)} to {metric.shown(one.expected.high)}"

        columns = [
            Column("method", lambda one: one.title),
            Column("average", lambda one: cell(one.expected.value)),
            Column("90 % prediction interval", interval),
            Column(f"gain over ERM, {UNITS[UNIT]}", lambda one: one.gain),
            Column("adjusted p", lambda one: Amount(one.p), optional=True),
            *map(value, self.best.values),
        ]
        title = f"{data_title(self.advice.data)}: {metric.title} on the domain left out"
        return Table.of(f"{title}{metric.unit}{metric.direction}.", columns, self.results)

    def to_json(self) -> dict[str, Any]:
        """Contents of ``advice.json``: those of the advice, and the results."""
        values = {
            **self.advice.to_json(),
            "command": self.command,
            "selection": self.selection,
            "left_out": [list(group) for group in self.left_out],
            "methods": [one.to_json() for one in self.results],
            "beats_trivial": self.beats_trivial,
            "checks": {
                domain: {"expected": expected.to_json(), "value": value}
                for domain, (expected, value) in self.checks.items()
            },
            "hurts": [one.to_json() for one in self.hurts],
            "findings": self.sentences,
            "notes": self.notes,
        }
        return {**values, "sha256": own_checksum(values)}

    def html(self) -> str:
        """The page ``advice.html``."""
        settings = {**self.advice.hparams, **self.advice.options}
        return render_advice(
            title=f"Advice for {data_title(self.advice.data)}",
            findings=self.sentences,
            notes=self.notes,
            results=self.table,
            method=self.best.title,
            settings=settings_table(settings, "Hyper-parameters and options"),
            command=self.command,
            figures=[
                (str(one), base64.b64encode(one.figure).decode())
                for one in self.hurts
                if one.figure
            ],
        )
