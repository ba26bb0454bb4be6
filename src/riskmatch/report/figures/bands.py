"""What held when: a row of bands for each of a few names, in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from riskmatch.report.figures.canvas import canvas, styled
from riskmatch.report.figures.lettering import clipped
from riskmatch.report.style import BLUE, Width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spans = Sequence[tuple[float, float]]
"""From where, to where."""


def bands(
    panels: Mapping[str, Mapping[str, Spans]],
    *,
    title: str,
    xlabel: str,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """One panel per title with a row per name, filled where it held; the place tells the name.

    Args:
        panels: the spans by title and by name.
        title: of the whole.
        xlabel: of every panel of the last row.
        note: what stands below.
        width: of the figure.
    """
    most = max(len(rows) for rows in panels.values())
    with styled():
        made = canvas(
            list(panels),
            {},
            width=width,
            title=title,
            note=note,
            height=0.75 + 0.22 * most,
            sharey=False,
        )
        for axes, rows in zip(made.panels, panels.values(), strict=True):
            for place, spans in enumerate(rows.values()):
                lengths = [(start, end - start) for start, end in spans]
                axes.broken_barh(lengths, (place - 0.25, 0.5), color=BLUE)
            axes.set_yticks(range(len(rows)), [clipped(name, 1.0) for name in rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.grid(False, axis="y")
        made.label(xlabel, "")
        return made.figure
