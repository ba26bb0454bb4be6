"""``riskmatch demo``: ERM and RDM on coloured digits in about a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import RunFailed, bad_input
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import print_json, printable
from riskmatch.cli.progress import SweepDisplay


@dataclass(frozen=True)
class Demo:
    """Train ERM and RDM on coloured digits, which come with scikit-learn.

    The colour predicts the label in the training domains but not in the test domain.
    """

    out: Path = Path("demo")
    """Output folder."""
    seed: int = 0
    """Seed of the digits, their colours and the weights."""
    overwrite: bool = False
    """Replace files of the same names that were made from other runs, or not by riskmatch."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the result as JSON."""


def run(words: Sequence[str]) -> int:
    """Train three models, print a table and draw their risks."""
    options = parse(Demo, "demo", words)
    with bad_input(), SweepDisplay(quiet=options.quiet) as display:
        outcome = riskmatch.demo(
            options.out,
            options.seed,
            overwrite=options.overwrite,
            on_plan=display.plan,
            on_change=display.change,
        )
    if outcome.output is None:
        raise RunFailed(f"{outcome.error} Run the same command again to continue.")
    if options.json:
        print_json(outcome.to_json())
    elif not options.quiet:
        print(outcome.output.text, end="\n\n")
        print("\n".join(map(printable, outcome.output.files)))
    return 0
