"""``riskmatch estimate``: estimate the accuracy of a model at a site without labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import print_json, print_line, print_table
from riskmatch.cli.progress import Display


@dataclass
class Estimate(Printed, Command):
    """Estimate the accuracy of a model at a site without labels, with an interval.

    The estimator is the one with the smallest error on the left-out sites of the model folder, each
    estimated by a model trained without it; these errors make the interval. The page has what was
    expected, what is estimated, what changed, and the most unusual samples.

    Example:
      riskmatch estimate runs/3f2a…/model new-site
    """

    model: Positional[Path]
    """Folder of the model, as riskmatch train --all-domains writes it, with its left-out sites."""
    input: Positional[str]
    """Folder of images, manifest or table of one site, without labels."""
    metric: str | None = None
    """Metric to estimate; by default the primary one of the task."""
    estimator: str | None = None
    """Estimator to use: thresholded, difference, calibrated, nearest or package.module:Name; by
    default the one with the smallest error on left-out sites."""
    level: float = 0.9
    """Level of the interval."""
    out: Path = Path("estimate.html")
    """File of the page, .html."""
    batch_size: int = 32
    """Inputs per forward pass."""

    def execute(self) -> None:
        """Estimate, write the page, and print the findings."""
        prepare_output(self.out, "--out", (".html",))
        with Display(self.quiet, "samples") as display:
            estimated = riskmatch.estimate(
                **self.arguments("input"),
                inputs=self.input,
                on_skip=display.skip,
                on_progress=display.progress,
            )
        if self.json:
            print_json(estimated.to_json())
        elif not self.quiet:
            print_table(estimated.table())
            for line in estimated.lines():
                print_line(line)
            print_line(f"page  {self.out}")
