"""``riskmatch figure``: draw a figure of runs as a PNG, SVG or PDF file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import riskmatch
from riskmatch.cli.errors import BadInput, bad_input, prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import printable
from riskmatch.cli.progress import progress

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


@dataclass(frozen=True)
class Draw:
    """Options of ``riskmatch figure``."""

    name: Positional[str | None] = None
    """Name of a figure, or a JSON file."""
    runs: Positional[tuple[Path, ...]] = ()
    """Folders of runs, of many runs, or of sweeps."""
    out: Path | None = None
    """File to write: .png, .svg, .pdf, or .json to draw it again; by default its name with .png."""
    width: Literal["column", "page"] | None = None
    """Column (3.3 inches) or page (6.9 inches); by default column width for a single panel."""
    data_dir: Path | None = None
    """Folder to search first for data sets, where predictions come from a checkpoint."""
    quiet: bool = False
    """Print nothing but errors."""


def run(words: Sequence[str]) -> int:
    """Draw a figure, or list the figures."""
    summaries = riskmatch.list_figures()
    width = max(map(len, summaries))
    figures = "\n".join(f"  {name:<{width}}   {text}" for name, text in summaries.items())
    text = TEXT.format(figures=figures)
    options = parse(Draw, "figure", words or ["--help"], text)
    if options.name is None:
        raise BadInput("Give the name of a figure; riskmatch figure --help lists them.")
    out = options.out or Path(Path(options.name).stem + ".png")
    prepare_output(out, "--out", (".png", ".svg", ".pdf", ".json"))
    with bad_input(), progress("samples", options.quiet) as on_progress:
        riskmatch.draw_figure(
            options.name,
            options.runs,
            out,
            width=options.width,
            data_dir=options.data_dir,
            on_progress=on_progress,
        )
    if not options.quiet:
        print(printable(out))
    return 0
