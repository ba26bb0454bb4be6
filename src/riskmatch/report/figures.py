"""Figures from plain numbers; each function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.report.distribution import Distribution
from riskmatch.report.style import BLACK, Look, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """A line, with what it varies by on either side where that is known."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    sd: Sequence[float] | None = None


def curves(
    panels: Mapping[str, Sequence[Curve]],
    *,
    columns: int,
    title: str,
    xlabel: str,
    ylabel: str,
    mark: float | None = None,
) -> Figure:
    """One panel of curves per title, all on the same axes, with one legend for all.

    Args:
        panels: the curves by title.
        columns: panels side by side.
        title: of the whole.
        xlabel: of every panel of the last row.
        ylabel: of every panel of the first column.
        mark: where to draw a thin vertical line.
    """
    rows = -(-len(panels) // columns)
    figure = _figure(1.6 + 3.6 * columns, 0.9 + 2.8 * rows)
    figure.suptitle(title)
    grid = figure.subplots(rows, columns, **_SHARED)
    legend: dict[str, Any] = {}
    for number, (name, lines) in enumerate(panels.items()):
        axes = grid.flat[number]
        plain(axes)
        axes.set_title(name, fontsize=10)
        if mark is not None:
            axes.axvline(mark, color=BLACK, linewidth=0.8, alpha=0.5)
        for curve in lines:
            look = curve.look
            (line,) = axes.plot(
                curve.x, curve.y, color=look.color, linestyle=look.dashes, linewidth=look.width
            )
            legend.setdefault(curve.label, line)
            if curve.sd is not None:
                low, high = (
                    [y + s * d for y, d in zip(curve.y, curve.sd, strict=True)] for s in (-1, 1)
                )
                axes.fill_between(curve.x, low, high, color=look.color, alpha=0.12, linewidth=0)
    for axes in grid[-1]:
        axes.set_xlabel(xlabel)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="outside right center",
        frameon=False,
        fontsize=9,
        handlelength=3,
    )
    return figure


def distributions(
    panels: Mapping[str, Mapping[str, Distribution]],
    looks: Sequence[Look],
    *,
    title: str,
    xlabel: str,
) -> Figure:
    """One panel per title: a histogram and a smooth density per label, a tick at each mean.

    All panels have the same axes, so that heights and widths compare.
    """
    figure = _figure(1 + 4 * len(panels), 3.8)
    figure.suptitle(title)
    grid = figure.subplots(1, len(panels), **_SHARED)
    top = max(max(d.density) for named in panels.values() for d in named.values())
    for axes, (model, named) in zip(grid.flat, panels.items(), strict=True):
        plain(axes)
        axes.set(title=model, xlabel=xlabel)
        for (label, shown), look in zip(named.items(), looks, strict=False):
            color, dashes = look.color, look.dashes
            axes.stairs(shown.heights, shown.edges, fill=True, color=color, alpha=0.18)
            axes.plot(
                shown.grid, shown.density, color=color, linestyle=dashes, linewidth=1.6, label=label
            )
            axes.axvline(shown.mean, ymax=0.09, color=color, linewidth=2.6)
            axes.set_xlim(shown.edges[0], shown.edges[-1])
        axes.set_ylim(0, 1.08 * top)
    grid.flat[0].set_ylabel("density")
    grid.flat[-1].legend(frameon=False, fontsize=9)
    return figure


_SHARED: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False}


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=150)
