"""Figures as values: the numbers to draw, which can be stored as JSON and drawn again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from riskmatch.files import finite, to_json
from riskmatch.report.density import DIGITS, DensityEstimate
from riskmatch.report.figures.charts import (
    Curve,
    Spans,
    draw_curves,
    draw_densities,
    draw_spans,
)
from riskmatch.report.style import LineStyle, Width

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """Numbers and texts of a figure."""

    title: str
    xlabel: str
    note: str
    """Text below the panels."""
    panels: Mapping[str, Any]
    """Content of the panels by title."""

    chart: ClassVar[Callable[..., Figure]]
    """Function that draws the fields."""

    def draw(self, width: Width | None = None) -> Figure:
        """Matplotlib figure; by default one panel has column width, several have page width."""
        width = width or ("column" if len(self.panels) == 1 else "page")
        return self.chart(**vars(self), width=width)

    def json(self) -> str:
        """JSON text from which :func:`read_plot` restores the figure."""
        values = {"kind": type(self).__name__.lower(), **finite(asdict(self), DIGITS)}
        return to_json(values, indent=1) + "\n"


@dataclass(frozen=True)
class Lines(Plot):
    """Curves; see :func:`~riskmatch.report.figures.charts.draw_curves`."""

    panels: Mapping[str, Sequence[Curve]]
    ylabel: str
    points: bool = False
    log: bool = False
    sharey: bool = True
    marks: Mapping[str, float] = field(default_factory=dict)

    chart = staticmethod(draw_curves)


@dataclass(frozen=True)
class Densities(Plot):
    """Density estimates; see :func:`~riskmatch.report.figures.charts.draw_densities`."""

    panels: Mapping[str, Mapping[str, DensityEstimate]]
    styles: Mapping[str, LineStyle]
    log: bool = False

    chart = staticmethod(draw_densities)


@dataclass(frozen=True)
class Bands(Plot):
    """Intervals; see :func:`~riskmatch.report.figures.charts.draw_spans`."""

    panels: Mapping[str, Mapping[str, Spans]]
    styles: Mapping[str, LineStyle]

    chart = staticmethod(draw_spans)


def read_plot(text: str) -> Plot:
    """Restore a figure from the text that :meth:`Plot.json` returned.

    Raises:
        ValueError: the text is not the JSON of a figure.
    """
    try:
        values = _restore_nan(json.loads(text))
        kind, panels = values.pop("kind"), values.pop("panels")
        if kind == "lines":
            curves = {title: [Curve.from_json(c) for c in panel] for title, panel in panels.items()}
            return Lines(**values, panels=curves)
        if kind == "densities":
            estimates = {
                title: {label: DensityEstimate.from_json(e) for label, e in panel.items()}
                for title, panel in panels.items()
            }
            styles = _styles(values)
            return Densities(**values, panels=estimates, styles=styles)
        if kind == "bands":
            styles = _styles(values) if "styles" in values else {}
            return Bands(**values, panels=panels, styles=styles)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"This is not the JSON of a figure: {error!r}.") from error
    raise ValueError(
        f"This is not the JSON of a figure: unknown kind {kind!r}, expected 'lines', 'densities' "
        "or 'bands'."
    )


def _styles(values: dict[str, Any]) -> dict[str, LineStyle]:
    """Take the line styles out of the values of a figure; older files call them "looks"."""
    styles = values.pop("looks", None) or values.pop("styles")
    return {label: LineStyle.from_json(style) for label, style in styles.items()}


def _restore_nan(value: Any, in_list: bool = False) -> Any:
    """``value`` with NaN for every None inside a list."""
    if isinstance(value, dict):
        return {key: _restore_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_restore_nan(entry, True) for entry in value]
    return math.nan if value is None and in_list else value
