"""A figure as a value: the numbers that are drawn, which a JSON file can keep."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.report.distribution import Distribution
from riskmatch.report.figures.bands import Spans, bands
from riskmatch.report.figures.curves import Curve, curves
from riskmatch.report.figures.densities import distributions
from riskmatch.report.style import Look, Width

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot(ABC):
    """What all figures have."""

    title: str
    xlabel: str
    note: str
    """What stands below."""
    panels: Mapping[str, Any]
    """By title."""

    def draw(self, width: Width | None = None) -> Figure:
        """The matplotlib figure; a single panel takes a column, several take a page."""
        return self._draw(width or ("column" if len(self.panels) == 1 else "page"))

    @abstractmethod
    def _draw(self, width: Width) -> Figure: ...

    def json(self) -> str:
        """The text of a file from which :func:`read_plot` has the same figure again."""
        values = {"kind": type(self).__name__.lower(), **_plain(asdict(self))}
        return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Lines(Plot):
    """Curves, see :func:`~riskmatch.report.figures.curves.curves`."""

    panels: Mapping[str, Sequence[Curve]]
    ylabel: str
    points: bool = False
    log: bool = False
    sharey: bool = True

    def _draw(self, width: Width) -> Figure:
        return curves(**vars(self), width=width)


@dataclass(frozen=True)
class Densities(Plot):
    """Distributions, see :func:`~riskmatch.report.figures.densities.distributions`."""

    panels: Mapping[str, Mapping[str, Distribution]]
    looks: Mapping[str, Look]
    log: bool = False

    def _draw(self, width: Width) -> Figure:
        return distributions(**vars(self), width=width)


@dataclass(frozen=True)
class Bands(Plot):
    """What held when, see :func:`~riskmatch.report.figures.bands.bands`."""

    panels: Mapping[str, Mapping[str, Spans]]

    def _draw(self, width: Width) -> Figure:
        return bands(**vars(self), width=width)


def read_plot(text: str) -> Plot:
    """The figure that :meth:`Plot.json` wrote.

    Raises:
        ValueError: the text is none.
    """
    try:
        values = _numbers(json.loads(text))
        kind, panels = values.pop("kind"), values.pop("panels")
        if kind == "lines":
            made = {title: [Curve.from_json(c) for c in lines] for title, lines in panels.items()}
            return Lines(**values, panels=made)
        if kind == "densities":
            looks = {label: Look.from_json(look) for label, look in values.pop("looks").items()}
            shown = {
                title: {label: Distribution.from_json(d) for label, d in named.items()}
                for title, named in panels.items()
            }
            return Densities(**values, panels=shown, looks=looks)
        if kind == "bands":
            return Bands(**values, panels=panels)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"This is not the JSON of a figure: {error!r}.") from error
    raise ValueError(f"This is not the JSON of a figure, but of {kind!r}.")


def _plain(value: Any) -> Any:
    """``value`` with six digits in every number, and None for those that are not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _numbers(value: Any, below: bool = False) -> Any:
    """``value`` with NaN for every None inside a list."""
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_numbers(entry, True) for entry in value]
    return math.nan if value is None and below else value
