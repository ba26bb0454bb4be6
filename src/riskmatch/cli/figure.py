"""``riskmatch figure``: one figure of runs, as a file for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, check_name
from riskmatch.cli.files import ready
from riskmatch.cli.options import options_of
from riskmatch.cli.parser import Parser
from riskmatch.report.style import Width

if TYPE_CHECKING:
    from riskmatch.report.figures.plot import Plot

TEXT = """\
Draw a figure from the records and predictions of runs, or again from the JSON file that riskmatch
reproduce wrote beside a figure.

Figures:
{figures}

Examples:
  riskmatch figure risks runs/3f2a… runs/9c01… -o risks.pdf
  riskmatch figure results/figures/fig1.json -o fig1.svg --width column
"""


@dataclass(frozen=True)
class Draw:
    """What is asked for."""

    name: Positional[str | None] = None
    """One of the figures above, or a JSON file."""
    runs: Positional[tuple[Path, ...]] = ()
    """Folders of runs, of many runs, or of sweeps."""
    out: Path | None = None
    """The file, .png, .svg or .pdf; by default the name of the figure with .png."""
    width: Width | None = None
    """A column, 3.3 inches, or a page, 6.9 inches; by default a column for a single panel."""
    quiet: bool = False
    """Print nothing but errors."""


def run(words: Sequence[str]) -> int:
    """Draw a figure, or say which there are."""
    options = _parse(words or ["--help"])
    from riskmatch.report.figures.canvas import SUFFIXES, save

    if options.name is None:
        raise BadInput("Which figure? riskmatch figure --help lists them.")
    out = options.out or Path(Path(options.name).stem + ".png")
    ready(out, "--out", SUFFIXES)
    try:
        plot = _plot(options.name, options.runs)
        save(plot.draw(options.width), out)
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(str(error)) from error
    if not options.quiet:
        print(out)
    return 0


def _parse(words: Sequence[str]) -> Draw:
    from riskmatch.report.figures.kinds import KINDS

    width = max(map(len, KINDS))
    figures = "\n".join(f"  {name:<{width}}   {kind.summary}" for name, kind in KINDS.items())
    options = (
        replace(option, aliases=("-o",)) if option.name == "out" else option
        for option in options_of(Draw)
    )
    return Draw(**Parser("riskmatch figure", TEXT.format(figures=figures), options).parse(words))


def _plot(name: str, paths: Sequence[Path]) -> Plot:
    from riskmatch.report.figures.kinds import KINDS, plot_of
    from riskmatch.report.figures.plot import read_plot

    if name.endswith(".json"):
        if paths:
            raise BadInput(f"{name} holds all that it shows; name no runs besides.")
        return read_plot(Path(name).read_text("utf-8"))
    check_name("figure", name, KINDS)
    if not paths:
        raise BadInput(f"Of which runs? As in riskmatch figure {name} runs/ID -o {name}.pdf.")
    return plot_of(name, paths)
