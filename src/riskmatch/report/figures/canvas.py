"""What every figure is drawn on: panels of one size, one title, one key, one file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.files import write_whole
from riskmatch.report.figures.lettering import PAD, SAMPLE, clipped, side_by_side, tall, wrapped
from riskmatch.report.style import INCHES, RC, SMALL, TEXT, TITLE, Look, Width, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
SIDE_BY_SIDE: dict[Width, int] = {"column": 1, "page": 3}
"""Panels, at most."""
HEIGHT = 1.9
"""Of a panel with its title and its numbers, in inches."""
KEY = 8.5
"""The size of type that the lines of a key take, in points."""
FEW = 30
"""Up to this ratio of its ends a logarithmic axis has too few powers of ten to go by."""


@dataclass(frozen=True)
class Canvas:
    """A figure whose panels are still empty."""

    figure: Figure
    panels: list[Axes]
    """Row by row."""
    columns: int

    def label(self, xlabel: str, ylabel: str) -> None:
        """Label the axes at the left and at the bottom of all panels."""
        for number, axes in enumerate(self.panels):
            if number % self.columns == 0:
                axes.set_ylabel(ylabel)
            if number + self.columns >= len(self.panels):
                axes.set_xlabel(xlabel)
                axes.tick_params(labelbottom=True)


def canvas(
    titles: Sequence[str],
    key: Mapping[str, Look],
    *,
    width: Width,
    title: str,
    note: str = "",
    columns: int | None = None,
    height: float = HEIGHT,
    sharey: bool = True,
) -> Canvas:
    """A figure for panels; to be called within :func:`styled`.

    Args:
        titles: of the panels.
        key: of all of them: how each label looks.
        width: of the figure.
        title: of the whole.
        note: what stands below, in small type.
        columns: panels side by side; by default as many as have room, in rows of equal length.
        height: of a panel, in inches.
        sharey: whether all panels have the same heights.
    """
    from matplotlib.figure import Figure

    inches = INCHES[width]
    rows = -(-len(titles) // (columns or SIDE_BY_SIDE[width]))
    columns = columns or -(-len(titles) // rows)
    head, foot = wrapped(title, inches, TITLE), wrapped(note, inches, SMALL)
    entries = side_by_side(key, inches)
    above, below = (tall(len(t.splitlines()), p) for t, p in ((head, TITLE), (foot, SMALL)))
    middle = tall(-(-len(key) // entries), KEY)
    total = above + middle + height * rows + below
    figure = Figure(figsize=(inches, total), layout="constrained", dpi=200)
    engine = figure.get_layout_engine()
    assert engine is not None
    room = (0, below / total, 1, height * rows / total)
    engine.set(rect=room, w_pad=PAD, h_pad=PAD)  # type: ignore[call-arg]
    figure.text(0.5, 1 - PAD / total, head, va="top", ha="center", size=TITLE, weight="bold")
    figure.text(0.5, PAD / total, foot, va="bottom", ha="center", size=SMALL, color="#444444")
    if key:
        _add_key(figure, key, entries, 1 - above / total)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=sharey)
    for number, axes in enumerate(grid.flat):
        if number >= len(titles):
            axes.set_visible(False)
            continue
        plain(axes)
        axes.set_title(wrapped(titles[number], inches / columns - 0.5, TEXT, most=2))
    return Canvas(figure, list(grid.flat[: len(titles)]), columns)


def _add_key(figure: Figure, key: Mapping[str, Look], entries: int, top: float) -> None:
    from matplotlib.lines import Line2D

    labels = [clipped(label, figure.get_figwidth() - SAMPLE / 72) for label in key]
    figure.legend(
        [
            Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=look.width)
            for look in key.values()
        ],
        [f" {label}" if label.startswith("_") else label for label in labels],  # or it is left out
        loc="upper center",
        bbox_to_anchor=(0.5, top),
        ncols=entries,
        handlelength=2.6,
        columnspacing=1.2,
        borderpad=0.0,
        borderaxespad=0.0,
    )


def logarithmic(axis: Axis, low: float, high: float) -> None:
    """Plain numbers on a logarithmic axis, from ``low`` to ``high``: enough of them to read it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plainly = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(plainly)
    if high < FEW * low:
        axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter(plainly)
    else:
        axis.set_minor_formatter(NullFormatter())


@contextmanager
def styled() -> Iterator[None]:
    """The one style, whatever the user's own settings are."""
    try:
        from matplotlib import style
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'riskmatch[figures]'.") from error
    with style.context(["default", RC]):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF by the suffix, whole or not at all.

    The same figure gives the same bytes: no file holds a date.
    """
    kind = path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    data = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box is drawn for it
        figure.savefig(data, format=kind, metadata=undated)
    write_whole(path, data.getvalue())
