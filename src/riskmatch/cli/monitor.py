"""``riskmatch monitor``: test whether a new site is worse than left-out sites differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import starmap
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import riskmatch
from riskmatch.cli.errors import prepare_output
from riskmatch.cli.evaluate import Labelled
from riskmatch.cli.options import Positional
from riskmatch.cli.printer import Column, print_json, print_line, print_table
from riskmatch.cli.progress import Display

if TYPE_CHECKING:
    from riskmatch.deployment import Monitoring


@dataclass
class Monitor(Labelled):
    """Test whether a new site is worse than left-out sites differ among themselves.

    Every domain of DATA is a new site; with --unlabelled all inputs are one. Exit code 1 is the
    alarm: the metric is worse than the spread between the left-out sites in the model folder and
    the sampling error explain. For information, the risks, or without labels confidences and
    features, are compared with those held out in training: they tell that a site is unusual, not
    that the model is worse there, and raise no alarm.

    Example:
      riskmatch monitor runs/3f2a…/model new-site --looks 12
    """

    data: Positional[str]
    """Labelled data as for riskmatch evaluate; with --unlabelled inputs as for predict."""
    unlabelled: bool = False
    """Compare confidences and features, which need no labels."""
    metric: str | None = None
    """The metric of the alarm: a name, package.module:function, or risk for the mean risk; by
    default the primary one of the task."""
    level: float = 0.05
    """Probability of an alarm at sites like those that were left out; several sites share it."""
    looks: int = 1
    """Number of times that the sites are tested, as more data come; all looks share the level."""
    permutations: int = 1000
    """Permutations of every test of distributions."""
    seed: int = 0
    """Seed of subsamples and permutations."""
    figure: Path | None = None
    """File for the distribution functions of the risks or confidences: .png, .svg or .pdf."""

    def execute(self) -> int:
        """Test, print the tests, and return 1 where there is an alarm."""
        if self.figure is not None:
            prepare_output(self.figure, "--figure", (".png", ".svg", ".pdf"))
        with Display(self.quiet, "samples") as display:
            monitoring = riskmatch.monitor(
                self.model, labelled=not self.unlabelled, **self.reading(display)
            )
        if self.json:
            print_json(monitoring.to_json())
        elif not self.quiet:
            _print(monitoring)
        return int(monitoring.alarm)


_NUMBERS = {
    "mean": "mean",
    "reference_mean": "of training",
    "mmd2": "MMD²",
    "effect": "effect",
    "p": "p",
}
"""Titles of the numbers of a test of distributions."""


def _print(monitoring: Monitoring) -> None:
    def number(name: str, title: str) -> Column:
        return Column(
            title, lambda row: None if math.isnan(row.get(name, math.nan)) else f"{row[name]:.2g}"
        )

    columns = [
        Column("site", itemgetter("site")),
        Column("compared", itemgetter("quantity")),
        Column("samples", lambda row: f"{row['samples']:,}"),
        Column("of training", lambda row: f"{row['reference_samples']:,}"),
        *starmap(number, _NUMBERS.items()),
    ]
    if tests := monitoring.tests.to_dict("records"):
        print_line(
            "For information, distributions at the site and in the pool held out in training "
            "(no difference: an effect of 0.5, of features 0)"
        )
        print_table(columns, tests)
    for line in monitoring.lines:
        print_line(line, "bold" * line.startswith("ALARM"))
