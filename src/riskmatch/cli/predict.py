"""``riskmatch predict``: predict the labels of images, of rows of a table or of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command
from riskmatch.cli.printer import print_line, printable
from riskmatch.cli.progress import Display


@dataclass
class Predict(Command):
    """Predict with a model, and write a row per input: class, confidence, probabilities.

    Of tags: those that are predicted, and their probabilities; of a regression the prediction.

    INPUT is a folder of images at any depth, a manifest (a CSV, JSON or Parquet file with a column
    path), an image, or a table: what the model was trained on. A file that cannot be read is
    reported and skipped.

    Example:
      riskmatch predict runs/3f2a…/model photos -o predictions.csv
    """

    model: Positional[Path]
    """Folder of the model, as riskmatch train --all-domains writes it."""
    input: Positional[str]
    """Folder of images, manifest or table."""
    out: Path
    """File to write, .csv or .parquet."""
    estimate: bool = False
    """Also estimate how accurate the model is on these inputs, as riskmatch estimate does."""
    batch_size: int = 32
    """Inputs per forward pass."""
    strict: bool = False
    """Refuse categories, numbers and missing columns that training did not have, which are reported
    by column, and files that cannot be read."""
    quiet: bool = False
    """Print nothing but errors."""

    def execute(self) -> None:
        """Predict, write the table, and print how many inputs it has."""
        prepare_output(self.out, "--out", (".csv", ".parquet"))
        with Display(self.quiet, "samples") as display:
            table = riskmatch.predict(
                **self.arguments("input"),
                inputs=self.input,
                on_skip=display.skip,
                on_progress=display.progress,
            )
        if not self.quiet:
            note = f"; {display.skipped:,} could not be read" if display.skipped else ""
            print(f"{printable(self.out)} has {len(table):,} predictions{note}")
            for line in table.attrs["estimate"].lines() if self.estimate else ():
                print_line(line)
