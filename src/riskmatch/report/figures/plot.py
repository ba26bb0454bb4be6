"""Figures as values: the numbers to draw, which can be stored as JSON and drawn again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from riskmatch.files import finite, to_json
from riskmatch.report.density import DIGITS, DensityEstimate
from riskmatch.report.figures.canvas import Layout, canvas, figure_style, fit_label, label_log_axis
from riskmatch.report.style import BLACK, BLUE, LineStyle, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = Sequence[int | float]
"""Whole numbers stay so when they are read again."""
Spans = Sequence[tuple[float, float]]
"""Intervals (start, end)."""


@dataclass(frozen=True)
class Curve:
    """A labelled line, with its spread where that is known."""

    label: str
    x: Numbers
    y: Numbers
    style: LineStyle
    sd: Numbers | None = None
    """Half the height of the band or error bar at each point."""


@dataclass(frozen=True)
class Plot:
    """Numbers and texts of a figure: panels in one style, with one legend."""

    title: str
    xlabel: str
    note: str
    """Text below the panels."""
    panels: Mapping[str, Any]
    """Content of the panels by title."""

    def draw(self, width: Width | None = None, columns: int | None = None) -> Figure:
        """Matplotlib figure.

        Args:
            width: by default one panel has column width, several have page width.
            columns: panels per row; by default as many as fit.
        """
        with figure_style():
            figure = canvas(self, self._layout(), width, columns)
            panels = figure.axes[: len(self.panels)]
            for axes, (title, content) in zip(panels, self.panels.items(), strict=True):
                self._draw_panel(axes, title, content)
            for axes in panels:  # limits are known now
                self._finish(axes)
            return figure

    def _layout(self) -> Layout:
        raise NotImplementedError

    def _draw_panel(self, axes: Axes, title: str, content: Any) -> None:
        raise NotImplementedError

    def _finish(self, axes: Axes) -> None:
        """Label the axes of a panel."""

    def json(self) -> str:
        """JSON text from which :func:`read_plot` restores the figure."""
        values = {"kind": type(self).__name__.lower(), **finite(asdict(self), DIGITS)}
        return to_json(values, indent=1) + "\n"


@dataclass(frozen=True)
class Lines(Plot):
    """One panel of curves per title."""

    panels: Mapping[str, Sequence[Curve]]
    ylabel: str
    points: bool = False
    """Draw markers with error bars instead of lines with bands."""
    log: bool = False
    """Use a logarithmic y axis."""
    sharey: bool = True
    """Use the same y limits in all panels."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Position of a thin vertical line, by panel title."""

    def _layout(self) -> Layout:
        legend = {curve.label: curve.style for panel in self.panels.values() for curve in panel}
        return Layout(legend if len(legend) > 1 else {}, self.ylabel, sharey=self.sharey)

    def _draw_panel(self, axes: Axes, title: str, content: Sequence[Curve]) -> None:
        from matplotlib.ticker import MaxNLocator

        if title in self.marks:
            axes.axvline(self.marks[title], color=BLACK, linewidth=0.6, alpha=0.5)
        for curve in content:
            line = curve.style.line
            if self.points:
                line |= {"marker": "o", "markersize": 3.5, "elinewidth": 0.9, "capsize": 2.5}
                axes.errorbar(curve.x, curve.y, yerr=curve.sd, **line)
                continue
            axes.plot(curve.x, curve.y, **line)
            if curve.sd is not None:
                pairs = list(zip(curve.y, curve.sd, strict=True))
                low, high = ([y + sign * sd for y, sd in pairs] for sign in (-1, 1))
                axes.fill_between(
                    curve.x, low, high, color=curve.style.color, alpha=0.12, linewidth=0
                )
        curves = (curve for panel in self.panels.values() for curve in panel)
        if all(float(x).is_integer() for curve in curves for x in curve.x):
            axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        if self.log:
            axes.set_yscale("log")

    def _finish(self, axes: Axes) -> None:
        if self.log:
            label_log_axis(axes.yaxis, *axes.get_ylim())


@dataclass(frozen=True)
class Densities(Plot):
    """One panel per title with a histogram, a density and a tick at the mean per label.

    All panels share their axes, so that heights and widths can be compared.
    """

    panels: Mapping[str, Mapping[str, DensityEstimate]]
    styles: Mapping[str, LineStyle]
    log: bool = False
    """The estimates are per decade; use a logarithmic x axis."""

    def _layout(self) -> Layout:
        legend = {label: self.styles[label] for panel in self.panels.values() for label in panel}
        return Layout(legend, "density per decade" if self.log else "density")

    def _draw_panel(self, axes: Axes, title: str, content: Mapping[str, DensityEstimate]) -> None:
        for label, estimate in content.items():
            style, edges = self.styles[label], estimate.edges
            axes.stairs(estimate.heights, edges, fill=True, color=style.color, alpha=0.16)
            axes.plot(estimate.grid, estimate.density, **style.line)
            axes.axvline(estimate.mean, ymax=0.09, color=style.color, linewidth=2.2)
            axes.set_xlim(edges[0], edges[-1])
        estimates = [e for panel in self.panels.values() for e in panel.values()]
        axes.set_ylim(0, 1.05 * max(max(*e.density, *e.heights) for e in estimates))
        if self.log:
            axes.set_xscale("log")
            label_log_axis(axes.xaxis, *axes.get_xlim())


@dataclass(frozen=True)
class Bands(Plot):
    """One panel per title with one row of horizontal bars per label."""

    panels: Mapping[str, Mapping[str, Spans]]
    styles: Mapping[str, LineStyle] = field(default_factory=dict)
    """Of which the colour is used; other bars are blue."""

    def _layout(self) -> Layout:
        height = 0.75 + 0.22 * max(len(rows) for rows in self.panels.values())
        return Layout({}, height=height, sharey=False)

    def _draw_panel(self, axes: Axes, title: str, content: Mapping[str, Spans]) -> None:
        for row, (label, spans) in enumerate(content.items()):
            bars = [(start, end - start) for start, end in spans]
            colour = self.styles.get(label, LineStyle(BLUE)).color
            axes.broken_barh(bars, (row - 0.25, 0.5), color=colour)
        axes.set_yticks(range(len(content)), [fit_label(name, 1.0) for name in content])
        axes.set_ylim(len(content) - 0.5, -0.5)
        axes.grid(False, axis="y")


def read_plot(text: str) -> Plot:
    """Restore a figure from the text that :meth:`Plot.json` returned.

    Raises:
        ValueError: the text is not the JSON of a figure.
    """
    types = {type_.__name__.lower(): type_ for type_ in (Lines, Densities, Bands)}
    try:
        values = _restore_nan(json.loads(text))
        name = values.pop("kind")
        if name not in types:
            raise ValueError(f"unknown kind {name!r}, expected one of {', '.join(types)}")
        return msgspec.convert(values, types[name])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"This is not the JSON of a figure: {error!r}.") from error


def _restore_nan(value: Any, in_list: bool = False) -> Any:
    """``value`` with NaN for every None inside a list."""
    if isinstance(value, dict):
        return {key: _restore_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_restore_nan(entry, True) for entry in value]
    return math.nan if value is None and in_list else value
