"""``riskmatch monitor``: test whether a new site is like the domains of training."""

from __future__ import annotations

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
    """Test whether the risks of a new site are distributed like those of training.

    Every domain of DATA is a new site; with --unlabelled all inputs are one. Exit code 1 is the
    alarm: the permutation test against the pool of the held-out training samples in the model
    folder. Tests against single domains are descriptive. Without labels, confidences and features
    are compared instead: they tell that a site is unusual, not that the model is worse there.

    Example:
      riskmatch monitor runs/3f2a…/model new-site --figure risks.png
    """

    data: Positional[str]
    """Labelled data as for riskmatch evaluate; with --unlabelled inputs as for predict."""
    unlabelled: bool = False
    """Compare confidences and features, which need no labels."""
    level: float = 0.05
    """P-value at and below which there is an alarm."""
    permutations: int = 1000
    """Permutations of every test."""
    seed: int = 0
    """Seed of subsamples and permutations."""
    figure: Path | None = None
    """File for the distribution functions of the risks or confidences: .png, .svg or .pdf."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the tests as JSON."""

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


_NUMBERS = {"mmd2": "MMD²", "effect": "effect", "p": "p", "p_adjusted": "p (Holm)"}
"""Titles of the numbers of a test."""


def _print(monitoring: Monitoring) -> None:
    rows = monitoring.tests.to_dict("records")

    def column(name: str, title: str) -> Column:
        return Column(title, lambda row: f"{row[name]:.2g}")

    columns = [
        Column("site", itemgetter("site")),
        *([] if monitoring.labelled else [Column("quantity", itemgetter("quantity"))]),
        Column("against (samples)", lambda row: f"{row['against']} ({row['reference_samples']:,})"),
        *starmap(column, _NUMBERS.items()),
    ]
    print_table(columns, rows)
    for row in rows:
        if row["against"] == "pool" and row["quantity"] != "features":
            means = (
                f"{row['mean']:.4g} on {row['samples']:,} samples of {row['site']}, "
                f"{row['reference_mean']:.4g} on {row['reference_samples']:,} of the pool"
            )
            print_line(f"Mean {row['quantity']}: {means}.")
    print_line(
        "The test against the pool decides; those against single domains are descriptive. Effect: "
        "of risks and confidences the probability that one of the site exceeds one of the "
        "reference (0.5: no difference), of features from 0 (no difference) to 1."
    )
    names = dict.fromkeys(row["quantity"] for row in rows)
    compared = " and ".join(name.rstrip("s") + "s" for name in names)
    compared += "" if monitoring.labelled else " (no labels)"
    result = f"No alarm: the {compared} do not differ significantly from those of training"
    if monitoring.alarm:
        result = f"ALARM: the {compared} differ from those of training"
    print_line(f"{result} (level {monitoring.level:g}).", "bold")
