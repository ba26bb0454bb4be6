"""``riskmatch demo``: ERM and RDM on coloured digits in about a minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import RunFailed
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import print_json, printable
from riskmatch.cli.progress import SweepDisplay


@dataclass
class Demo(Printed, Command):
    """Train ERM and RDM on coloured digits, which come with scikit-learn.

    The colour predicts the label in the training domains but not in the test domain.
    """

    out: Path = Path("demo")
    """Output folder."""
    seed: int = 0
    """Seed of the digits, their colours and the weights."""
    overwrite: bool = False
    """Replace files of the same names that were made from other runs, or not by riskmatch."""

    def execute(self) -> None:
        """Train three models, print a table and draw their risks."""
        with SweepDisplay(quiet=self.quiet) as display:
            outcome = riskmatch.demo(
                **self.arguments(), on_plan=display.plan, on_change=display.change
            )
        if outcome.output is None:
            raise RunFailed(f"{outcome.error} Run the same command again to continue.")
        if self.json:
            print_json(outcome.to_json())
        elif not self.quiet:
            print(outcome.output.text, end="\n\n")
            print("\n".join(map(printable, outcome.output.files)))
