"""Style of all figures: colour-blind safe colours (Okabe and Ito), dashes, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#888888"
SOLID, DASHED, DOTTED = (0.0, ()), (0.0, (5.0, 2.0)), (0.0, (1.0, 1.2))
DASH_DOT, LONG_DASHED = (0.0, (5.0, 1.5, 1.0, 1.5)), (0.0, (9.0, 2.0))

Width = Literal["column", "page"]
INCHES: dict[Width, float] = {"column": 3.3, "page": 6.9}
"""Figure widths: one column of a two-column page, or the full page."""

TITLE, TEXT, SMALL = 8.5, 7.5, 7.0
"""Font sizes in points."""
RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so files do not depend on the machine
    "text.parse_math": False,  # a dollar sign in a domain name is a dollar sign
    "font.size": TEXT,
    "figure.titlesize": TITLE,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "riskmatch",  # the same element ids in every file
    "pdf.fonttype": 42,  # TrueType fonts are embedded
}
"""Settings that differ from matplotlib's defaults."""


@dataclass(frozen=True)
class LineStyle:
    """Style of one line."""

    color: str
    dashes: tuple[float, tuple[float, ...]] = SOLID
    width: float = 1.4

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of matplotlib's functions that draw a line."""
        return {"color": self.color, "linestyle": self.dashes, "linewidth": self.width}


SERIES = (
    LineStyle(BLUE),
    LineStyle(GREEN, DASHED),
    LineStyle(PURPLE, DASH_DOT),
    LineStyle(ORANGE, LONG_DASHED),
    LineStyle(SKY, DOTTED),
    LineStyle(BLACK, DASHED),
    LineStyle(GREY),
)
"""Styles of ordinary lines, in order of use."""
DOMAIN_COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)
DOMAIN_DASHES = (SOLID, DASHED, DOTTED, DASH_DOT, LONG_DASHED)
"""Colours and dashes of domains by their place in the data set, in pages and figures alike."""


def line_styles(labels: Iterable[str]) -> dict[str, LineStyle]:
    """Assign a line style to each label, in order.

    Example:
        >>> line_styles(["loss", "penalty"])["penalty"].color == GREEN
        True
    """
    return dict(zip(dict.fromkeys(labels), cycle(SERIES), strict=False))


def domain_style(domain: str, domains: Sequence[str], test: bool = False) -> LineStyle:
    """Style of a domain, from its place in the list of all domains of its data set.

    A test domain has a thicker line of the same colour.

    Example:
        >>> pacs = ["art_painting", "cartoon", "photo", "sketch"]
        >>> domain_style("sketch", pacs).color == domain_style("sketch", pacs, test=True).color
        True
    """
    place = list(domains).index(domain)
    colour = DOMAIN_COLOURS[place % len(DOMAIN_COLOURS)]
    return LineStyle(colour, DOMAIN_DASHES[place % len(DOMAIN_DASHES)], 2.2 if test else 1.4)


def style_axes(axes: Axes) -> None:
    """Remove the box around the axes and draw a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
