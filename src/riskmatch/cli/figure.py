"""``riskmatch figure``: draw a figure of runs as a PNG, SVG or PDF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import riskmatch
from riskmatch.cli.errors import BadInput, prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Quiet
from riskmatch.cli.printer import printable
from riskmatch.cli.progress import Display

TEXT = """\
Draw a figure from the records and predictions of runs, or from a JSON file with its numbers, as
riskmatch reproduce writes it. Runs of a sweep have no predictions; risks and cdf compute them from
the last checkpoint.

Figures:
{figures}

Examples:
  riskmatch figure risks runs/3f2a… runs/9c01… -o risks.pdf
  riskmatch figure results/figures/fig1.json -o fig1.svg --width column
"""


@dataclass
class Figure(Quiet, Command):
    """Options of ``riskmatch figure``."""

    help_without_words: ClassVar[bool] = True

    name: Positional[str | None] = None
    """Name of a figure, or a JSON file."""
    runs: Positional[tuple[Path, ...]] = ()
    """Folders of runs, of many runs, or of sweeps."""
    out: Path | None = None
    """File to write: .png, .svg, .pdf, or .json to draw it again; by default its name with .png."""
    width: Literal["column", "page"] | None = None
    """Column (3.3 inches) or page (6.9 inches); by default column width for a single panel."""
    metric: str | None = None
    """Metric of curves and ablation, such as auroc; by default the primary one of the runs."""
    data_dir: Path | None = None
    """Folder to search first for data sets, where predictions come from a checkpoint."""

    @classmethod
    def help(cls) -> str:
        """The text, with the figures that there are."""
        summaries = riskmatch.list_figures()
        width = max(map(len, summaries))
        figures = (f"  {name:<{width}}   {text}" for name, text in summaries.items())
        return TEXT.format(figures="\n".join(figures))

    def execute(self) -> None:
        """Draw a figure."""
        if self.name is None:
            raise BadInput("Give the name of a figure; riskmatch figure --help lists them.")
        out = self.out or Path(Path(self.name).stem + ".png")
        prepare_output(out, "--out", (".png", ".svg", ".pdf", ".json"))
        with Display(self.quiet, "samples") as display:
            riskmatch.draw_figure(**{**self.arguments(), "out": out}, on_progress=display.progress)
        if not self.quiet:
            print(printable(out))
