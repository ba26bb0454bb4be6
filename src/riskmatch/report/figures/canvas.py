"""What every figure is drawn on: panels of one size, one title, one key, one file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from riskmatch.durable import write_whole
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
PAD = 0.04
"""Inches around everything."""
EM = 0.58
"""The width of a letter as a share of its size, in the mean."""
FEW = 30
"""Up to this ratio of its ends a logarithmic axis has too few powers of ten to go by."""
SAMPLE = 5 * SMALL
"""The width of the line beside a label, with the room around it, in points."""


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
    from matplotlib.lines import Line2D

    inches = INCHES[width]
    rows = -(-len(titles) // (columns or SIDE_BY_SIDE[width]))
    columns = columns or -(-len(titles) // rows)
    head, foot = wrapped(title, inches, TITLE), wrapped(note, inches, SMALL)
    labels = [clipped(label, inches - SAMPLE / 72) for label in key]
    entries = max(1, min(_room(labels, inches), len(labels)))
    above = _lines(head, TITLE)
    keys = 1.5 * SMALL / 72 * -(-len(key) // entries) + PAD if key else 0.0
    below = _lines(foot, SMALL) if note else 0.0
    total = above + keys + height * rows + below
    figure = Figure(figsize=(inches, total), layout="constrained", dpi=200)
    engine = figure.get_layout_engine()
    assert engine is not None
    middle = (0, below / total, 1, 1 - (above + keys + below) / total)
    engine.set(rect=middle, w_pad=PAD, h_pad=PAD)  # type: ignore[call-arg]
    figure.text(0.5, 1 - PAD / total, head, va="top", ha="center", size=TITLE, weight="bold")
    figure.text(0.5, PAD / total, foot, va="bottom", ha="center", size=SMALL, color="#444444")
    if key:
        figure.legend(
            [
                Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=look.width)
                for look in key.values()
            ],
            [f" {label}" if label.startswith("_") else label for label in labels],
            loc="upper center",
            bbox_to_anchor=(0.5, 1 - above / total),
            ncols=entries,
            handlelength=2.6,
            columnspacing=1.2,
            borderpad=0.0,
            borderaxespad=0.0,
        )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=sharey)
    for number, axes in enumerate(grid.flat):
        if number >= len(titles):
            axes.set_visible(False)
            continue
        plain(axes)
        axes.set_title(wrapped(titles[number], inches / columns - 0.5, TEXT, most=2))
    return Canvas(figure, list(grid.flat[: len(titles)]), columns)


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


def _room(labels: Iterable[str], inches: float) -> int:
    """How many entries of a key fit side by side."""
    longest = max((len(label) for label in labels), default=0)
    return int(72 * inches / (longest * SMALL * EM + SAMPLE))


def clipped(label: str, inches: float) -> str:
    """A label in one line that fits.

    Example:
        >>> clipped("a name that nobody can read", 1.0)
        'a name that nobo…'
    """
    label, most = " ".join(label.split()), int(72 * inches / (SMALL * EM))
    return label if len(label) <= most else label[: most - 1] + "…"


def _lines(text: str, points: float) -> float:
    """The height of text with some air, in inches."""
    return 1.3 * points / 72 * (1 + text.count("\n")) + 2 * PAD


def wrapped(text: str, inches: float, points: float, most: int | None = None) -> str:
    """Text in lines that fit, at most so many, all about as long.

    Example:
        >>> print(wrapped("ticks mark their means", 1.2, 8))
        ticks mark
        their means
    """
    letters = int(72 * inches / (points * EM))
    lines = wrap(text, letters, max_lines=most, placeholder=" …")
    if most is None:
        even = (wrap(text, fewer) for fewer in range(letters // 2, letters))
        lines = next((found for found in even if len(found) == len(lines)), lines)
    return "\n".join(lines)


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
