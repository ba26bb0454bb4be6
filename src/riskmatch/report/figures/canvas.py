"""Figure layout: panels of equal size, one title, one legend, one note; saving to a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from riskmatch.files import bytes_of, write_whole
from riskmatch.report.style import INCHES, RC, SMALL, TEXT, TITLE, LineStyle, Width, style_axes

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from riskmatch.report.figures.plot import Plot

SUFFIXES = (".png", ".svg", ".pdf")
MAX_COLUMNS: dict[Width, int] = {"column": 1, "page": 3}
"""Most panels side by side."""
PANEL_HEIGHT = 1.9
"""Height of a panel with its title and tick labels, in inches."""
LEGEND_SIZE = 8.5
"""Line height of the legend, in points."""
FEW_DECADES = 30
"""Below this ratio of its limits a logarithmic axis needs minor tick labels."""
PAD = 0.04
"""Padding in inches."""
CHARACTER = 0.58
"""Mean width of a character, as a fraction of the font size."""
LEGEND_LINE = 5 * SMALL
"""Width of the line sample beside a legend label, with padding, in points."""


class Layout(NamedTuple):
    """What the panels of a figure have in common."""

    legend: Mapping[str, LineStyle]
    """Line style by label."""
    ylabel: str = ""
    """Label of the y axes of the first column."""
    height: float = PANEL_HEIGHT
    """Height of a panel in inches."""
    sharey: bool = True
    """Whether they have the same y limits."""


def canvas(
    plot: Plot, layout: Layout, width: Width | None = None, columns: int | None = None
) -> Figure:
    """Create a figure whose first axes are the empty panels. Call it within :func:`figure_style`.

    Args:
        plot: texts of the figure, and its panels by title.
        layout: what its panels have in common.
        width: width of the figure; by default one panel has column width, several page width.
        columns: panels per row; by default as many as fit, in rows of equal length.
    """
    from matplotlib.figure import Figure

    titles, (legend, ylabel, height, sharey) = list(plot.panels), layout
    width = width or ("column" if len(titles) == 1 else "page")
    inches = INCHES[width]
    rows = -(-len(titles) // (columns or MAX_COLUMNS[width]))
    columns = columns or -(-len(titles) // rows)
    header, footer = fit_text(plot.title, inches, TITLE), fit_text(plot.note, inches, SMALL)
    entries = _entries_per_row(legend, inches)
    above, below = (
        _text_height(len(text.splitlines()), points)
        for text, points in ((header, TITLE), (footer, SMALL))
    )
    legend_height = _text_height(-(-len(legend) // entries), LEGEND_SIZE)
    total = above + legend_height + height * rows + below
    figure = Figure(figsize=(inches, total), dpi=200)
    area = (0, below / total, 1, height * rows / total)
    figure.set_layout_engine("constrained", rect=area, w_pad=PAD, h_pad=PAD)
    figure.text(0.5, 1 - PAD / total, header, va="top", ha="center", size=TITLE, weight="bold")
    figure.text(0.5, PAD / total, footer, va="bottom", ha="center", size=SMALL, color="#444444")
    if legend:
        _add_legend(figure, legend, entries, 1 - above / total)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=sharey)
    for number, axes in enumerate(grid.flat):
        if number >= len(titles):
            axes.set_visible(False)
            continue
        style_axes(axes)
        axes.set_title(fit_text(titles[number], inches / columns - 0.5, TEXT, max_lines=2))
        if number % columns == 0:
            axes.set_ylabel(ylabel)
        if number + columns >= len(titles):
            axes.set_xlabel(plot.xlabel)
            axes.tick_params(labelbottom=True)
    return figure


def _add_legend(figure: Figure, legend: Mapping[str, LineStyle], entries: int, top: float) -> None:
    from matplotlib.lines import Line2D

    labels = [fit_label(label, figure.get_figwidth() - LEGEND_LINE / 72) for label in legend]
    figure.legend(
        [Line2D([], [], **style.line) for style in legend.values()],
        # matplotlib omits labels that start with an underscore
        [f" {label}" if label.startswith("_") else label for label in labels],
        loc="upper center",
        bbox_to_anchor=(0.5, top),
        ncols=entries,
        handlelength=2.6,
        columnspacing=1.2,
        borderpad=0.0,
        borderaxespad=0.0,
    )


def label_log_axis(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis from ``low`` to ``high`` with at least two plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain_number = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(plain_number)
    if high < FEW_DECADES * low:
        axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter(plain_number)
    else:
        axis.set_minor_formatter(NullFormatter())


@contextmanager
def figure_style() -> Iterator[None]:
    """Context in which figures have our style, independent of the user's matplotlib settings."""
    from matplotlib import style

    with style.context(["default", RC]):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the suffix of ``path``, atomically."""
    write_whole(path, render(figure, path.suffix.removeprefix(".")))


def render(figure: Figure, format_: str) -> bytes:
    """A figure as the bytes of a file: ``png``, ``svg`` or ``pdf``.

    Equal figures give equal bytes: no file contains a date.
    """
    no_date: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    options = {"format": format_, "metadata": no_date.get(format_, {})}
    with figure_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box
        return bytes_of(lambda file: figure.savefig(file, **options))


def fit_label(label: str, inches: float) -> str:
    """Shorten a label to one line of a given width.

    Example:
        >>> fit_label("a name that nobody can read", 1.0)
        'a name that nobo…'
    """
    label, limit = " ".join(label.split()), int(72 * inches / (SMALL * CHARACTER))
    return label if len(label) <= limit else label[: limit - 1] + "…"


def fit_text(text: str, inches: float, points: float, max_lines: int | None = None) -> str:
    """Wrap text to a given width in lines of similar length; cut it after ``max_lines``.

    Example:
        >>> print(fit_text("ticks mark the means", 1.2, 8))
        ticks mark
        the means
    """
    limit = int(72 * inches / (points * CHARACTER))
    lines = wrap(text, limit, max_lines=max_lines, placeholder=" …", break_on_hyphens=False)
    if max_lines is None:
        even = (wrap(text, width, break_on_hyphens=False) for width in range(limit // 2, limit))
        lines = next((wrapped for wrapped in even if len(wrapped) == len(lines)), lines)
    return "\n".join(lines)


def _text_height(lines: int, points: float) -> float:
    """Height of lines of text with padding, in inches."""
    return 1.3 * points / 72 * lines + 2 * PAD if lines else 0.0


def _entries_per_row(labels: Iterable[str], inches: float) -> int:
    """Legend entries that fit side by side; at least one."""
    lengths = [len(label) for label in labels]
    longest = max(lengths, default=0) * SMALL * CHARACTER + LEGEND_LINE
    return max(1, min(int(72 * inches / longest), len(lengths)))
