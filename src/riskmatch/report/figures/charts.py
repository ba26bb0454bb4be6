"""Draw curves, density estimates and interval bars in panels, as matplotlib figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.report.density import DensityEstimate
from riskmatch.report.figures.canvas import canvas, figure_style, fit_label, label_log_axis
from riskmatch.report.style import BLACK, BLUE, LineStyle, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Spans = Sequence[tuple[float, float]]
"""Intervals (start, end)."""


@dataclass(frozen=True)
class Curve:
    """A labelled line, with its spread where that is known."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: LineStyle
    sd: Sequence[float] | None = None
    """Half the height of the band or error bar at each point."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Curve:
        """Curve from the JSON values of its fields; older files call the style ``look``."""
        style = values.pop("look", None) or values.pop("style")
        return cls(**values, style=LineStyle.from_json(style))


def draw_curves(
    panels: Mapping[str, Sequence[Curve]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    columns: int | None = None,
    marks: Mapping[str, float] | None = None,
    points: bool = False,
    log: bool = False,
    sharey: bool = True,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """Draw one panel of curves per title, with one legend.

    Args:
        panels: curves by panel title.
        title: title of the figure.
        xlabel: label of the x axis.
        ylabel: label of the y axis.
        columns: panels per row; by default as many as fit.
        marks: x position of a thin vertical line, by panel title.
        points: draw markers with error bars instead of lines with bands.
        log: use a logarithmic y axis.
        sharey: use the same y limits in all panels.
        note: text below the panels.
        width: width of the figure.
    """
    from matplotlib.ticker import MaxNLocator

    curves = [curve for members in panels.values() for curve in members]
    legend = {curve.label: curve.style for curve in curves}
    integers = all(float(x).is_integer() for curve in curves for x in curve.x)
    with figure_style():
        drawn = canvas(
            list(panels),
            legend if len(legend) > 1 else {},
            width=width,
            title=title,
            note=note,
            columns=columns,
            sharey=sharey,
        )
        for axes, (name, members) in zip(drawn.panels, panels.items(), strict=True):
            if name in (marks or {}):
                axes.axvline((marks or {})[name], color=BLACK, linewidth=0.6, alpha=0.5)
            for curve in members:
                _draw_curve(axes, curve, points)
            if integers:
                axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
            if log:
                axes.set_yscale("log")
        for axes in drawn.panels if log else ():
            label_log_axis(axes.yaxis, *axes.get_ylim())
        drawn.label(xlabel, ylabel)
        return drawn.figure


def _draw_curve(axes: Axes, curve: Curve, points: bool) -> None:
    x, y, sd, line = curve.x, curve.y, curve.sd, curve.style.line
    if points:
        line |= {"marker": "o", "markersize": 3.5, "elinewidth": 0.9, "capsize": 2.5}
        axes.errorbar(x, y, yerr=sd, **line)
        return
    axes.plot(x, y, **line)
    if sd is not None:
        low, high = ([v + s * d for v, d in zip(y, sd, strict=True)] for s in (-1, 1))
        axes.fill_between(x, low, high, color=curve.style.color, alpha=0.12, linewidth=0)


def draw_densities(
    panels: Mapping[str, Mapping[str, DensityEstimate]],
    styles: Sequence[LineStyle] | Mapping[str, LineStyle],
    *,
    title: str,
    xlabel: str,
    log: bool = False,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """Draw one panel per title with a histogram, a density and a tick at the mean per label.

    All panels share their axes, so that heights and widths can be compared.

    Args:
        panels: density estimates by panel title and label.
        styles: line styles, by label or in the order of the labels.
        title: title of the figure.
        xlabel: label of the x axis.
        log: the estimates are per decade; use a logarithmic x axis.
        note: text below the panels.
        width: width of the figure.
    """
    labels = list(dict.fromkeys(label for estimates in panels.values() for label in estimates))
    if not isinstance(styles, Mapping):
        styles = dict(zip(labels, styles, strict=False))
    top = max(max(*e.density, *e.heights) for panel in panels.values() for e in panel.values())
    with figure_style():
        drawn = canvas(
            list(panels), {k: styles[k] for k in labels}, width=width, title=title, note=note
        )
        for axes, estimates in zip(drawn.panels, panels.values(), strict=True):
            for label, estimate in estimates.items():
                style = styles[label]
                heights, edges = estimate.heights, estimate.edges
                axes.stairs(heights, edges, fill=True, color=style.color, alpha=0.16)
                axes.plot(estimate.grid, estimate.density, **style.line)
                axes.axvline(estimate.mean, ymax=0.09, color=style.color, linewidth=2.2)
                axes.set_xlim(edges[0], edges[-1])
            axes.set_ylim(0, 1.05 * top)
            if log:
                axes.set_xscale("log")
                label_log_axis(axes.xaxis, *axes.get_xlim())
        drawn.label(xlabel, "density per decade" if log else "density")
        return drawn.figure


def draw_spans(
    panels: Mapping[str, Mapping[str, Spans]],
    styles: Mapping[str, LineStyle],
    *,
    title: str,
    xlabel: str,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """Draw one panel per title with one row of horizontal bars per label.

    Args:
        panels: intervals by panel title and label.
        styles: line styles by label, of which the colour is used; other bars are blue.
        title: title of the figure.
        xlabel: label of the x axis.
        note: text below the panels.
        width: width of the figure.
    """
    height = 0.75 + 0.22 * max(len(rows) for rows in panels.values())
    with figure_style():
        drawn = canvas(
            list(panels), {}, width=width, title=title, note=note, height=height, sharey=False
        )
        for axes, rows in zip(drawn.panels, panels.values(), strict=True):
            for row, (label, spans) in enumerate(rows.items()):
                bars = [(start, end - start) for start, end in spans]
                axes.broken_barh(
                    bars, (row - 0.25, 0.5), color=styles.get(label, LineStyle(BLUE)).color
                )
            axes.set_yticks(range(len(rows)), [fit_label(name, 1.0) for name in rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.grid(False, axis="y")
        drawn.label(xlabel, "")
        return drawn.figure
