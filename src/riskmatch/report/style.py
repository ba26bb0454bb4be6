"""The look of every figure: colours that every eye tells apart (Okabe and Ito), dashes, sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#888888"
SOLID, DASHED, DOTTED = (0.0, ()), (0.0, (5.0, 2.0)), (0.0, (1.0, 1.2))
DASH_DOT, LONG = (0.0, (5.0, 1.5, 1.0, 1.5)), (0.0, (9.0, 2.0))

Width = Literal["column", "page"]
INCHES: dict[Width, float] = {"column": 3.3, "page": 6.9}
"""How wide a figure is: a column of a page, or all of it."""

TITLE, TEXT, SMALL = 8.5, 7.5, 7.0
"""Sizes of type, in points."""
RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so files do not depend on the machine
    "text.parse_math": False,  # a dollar in the name of a domain is a dollar
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
    "svg.hashsalt": "riskmatch",  # or the names inside differ from file to file
    "pdf.fonttype": 42,  # fonts are embedded as they are
}
"""What differs from matplotlib's defaults."""


@dataclass(frozen=True)
class Look:
    """A line: what belongs together has one colour, dashes tell its members apart."""

    color: str
    dashes: tuple[float, tuple[float, ...]] = SOLID
    width: float = 1.4

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Look:
        """The look of which ``values`` are the fields."""
        offset, lengths = values["dashes"]
        return cls(values["color"], (offset, tuple(lengths)), values["width"])


SERIES = (
    Look(BLUE),
    Look(GREEN, DASHED),
    Look(PURPLE, DASH_DOT),
    Look(ORANGE, LONG),
    Look(SKY, DOTTED),
    Look(BLACK, DASHED),
    Look(GREY),
)
"""Of things of one rank, in their order."""
TESTS = (Look(VERMILION, width=1.8), Look(VERMILION, DASHED, 1.8), Look(VERMILION, DOTTED, 1.8))
"""Of test domains, which stand out."""


def looks(labels: Iterable[str], tests: Iterable[str] = ()) -> dict[str, Look]:
    """A look for each label, the first ones all different; ``tests`` stand out.

    Example:
        >>> looks(["photo", "sketch"], tests=["sketch"])["sketch"].color == VERMILION
        True
    """
    standing_out = dict(zip(dict.fromkeys(tests), cycle(TESTS), strict=False))
    others = [label for label in dict.fromkeys(labels) if label not in standing_out]
    return {**dict(zip(others, cycle(SERIES), strict=False)), **standing_out}


def plain(axes: Axes) -> None:
    """Axes without a box, with a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
