"""How figures look: colours that every eye tells apart (Okabe and Ito), dashes and plain axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#888888"
SOLID, DASHED, DOTTED = (0.0, ()), (0.0, (5.0, 2.0)), (0.0, (1.0, 1.2))


@dataclass(frozen=True)
class Look:
    """A line: what belongs together has one colour, dashes tell its members apart."""

    color: str
    dashes: tuple[float, tuple[float, ...]] = SOLID
    width: float = 1.4


def plain(axes: Axes) -> None:
    """Axes without a box, with a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.7)
    axes.set_axisbelow(True)
