"""Curves in panels: over steps, over values of a hyper-parameter, over levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.report.figures.canvas import canvas, logarithmic, styled
from riskmatch.report.style import BLACK, Look, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """A line, with what it varies by on either side where that is known."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    sd: Sequence[float] | None = None

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Curve:
        """The curve of which ``values`` are the fields."""
        return cls(**{**values, "look": Look.from_json(values["look"])})


def curves(
    panels: Mapping[str, Sequence[Curve]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    columns: int | None = None,
    mark: float | None = None,
    points: bool = False,
    log: bool = False,
    sharey: bool = True,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """One panel of curves per title, all on the same axes, with one key for all.

    Args:
        panels: the curves by title.
        title: of the whole.
        xlabel: of every panel of the last row.
        ylabel: of every panel of the first column.
        columns: panels side by side; by default as many as have room.
        mark: where to draw a thin vertical line.
        points: whether every x is a measurement of its own: a dot with a bar, not a band.
        log: whether heights are logarithms.
        sharey: whether all panels have the same heights.
        note: what stands below.
        width: of the figure.
    """
    from matplotlib.ticker import MaxNLocator

    everything = [curve for lines in panels.values() for curve in lines]
    key = {curve.label: curve.look for curve in everything}
    whole = all(float(x).is_integer() for curve in everything for x in curve.x)
    with styled():
        made = canvas(
            list(panels),
            key if len(key) > 1 else {},
            width=width,
            title=title,
            note=note,
            columns=columns,
            sharey=sharey,
        )
        for axes, lines in zip(made.panels, panels.values(), strict=True):
            if mark is not None:
                axes.axvline(mark, color=BLACK, linewidth=0.6, alpha=0.5)
            for curve in lines:
                (_points if points else _line)(axes, curve)
            if whole:
                axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
            if log:
                axes.set_yscale("log")
        for axes in made.panels if log else ():
            logarithmic(axes.yaxis, *axes.get_ylim())
        made.label(xlabel, ylabel)
        return made.figure


def _line(axes: Axes, curve: Curve) -> None:
    look = curve.look
    axes.plot(curve.x, curve.y, color=look.color, linestyle=look.dashes, linewidth=look.width)
    if curve.sd is not None:
        low, high = ([y + s * d for y, d in zip(curve.y, curve.sd, strict=True)] for s in (-1, 1))
        axes.fill_between(curve.x, low, high, color=look.color, alpha=0.12, linewidth=0)


def _points(axes: Axes, curve: Curve) -> None:
    look = curve.look
    axes.errorbar(
        curve.x,
        curve.y,
        yerr=curve.sd,
        color=look.color,
        linestyle=look.dashes,
        linewidth=look.width,
        marker="o",
        markersize=3.5,
        elinewidth=0.9,
        capsize=2.5,
    )
