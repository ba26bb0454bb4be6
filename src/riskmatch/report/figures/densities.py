"""Distributions in panels: histograms under smooth densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from riskmatch.report.distribution import Distribution
from riskmatch.report.figures.canvas import canvas, logarithmic, styled
from riskmatch.report.style import Look, Width

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def distributions(
    panels: Mapping[str, Mapping[str, Distribution]],
    looks: Sequence[Look] | Mapping[str, Look],
    *,
    title: str,
    xlabel: str,
    log: bool = False,
    note: str = "",
    width: Width = "page",
) -> Figure:
    """One panel per title: a histogram and a smooth density per label, a tick at each mean.

    All panels have the same axes, so that heights and widths compare.

    Args:
        panels: the distributions by title and by label.
        looks: of the labels, in their order or by label.
        title: of the whole.
        xlabel: of every panel of the last row.
        log: whether they are those over orders of magnitude, to be shown so.
        note: what stands below.
        width: of the figure.
    """
    labels = list(dict.fromkeys(label for named in panels.values() for label in named))
    if not isinstance(looks, Mapping):
        looks = dict(zip(labels, looks, strict=False))
    top = max(max(*d.density, *d.heights) for named in panels.values() for d in named.values())
    with styled():
        made = canvas(
            list(panels), {k: looks[k] for k in labels}, width=width, title=title, note=note
        )
        for axes, named in zip(made.panels, panels.values(), strict=True):
            for label, shown in named.items():
                color, dashes = looks[label].color, looks[label].dashes
                axes.stairs(shown.heights, shown.edges, fill=True, color=color, alpha=0.16)
                axes.plot(
                    shown.grid,
                    shown.density,
                    color=color,
                    linestyle=dashes,
                    linewidth=looks[label].width,
                )
                axes.axvline(shown.mean, ymax=0.09, color=color, linewidth=2.2)
                axes.set_xlim(shown.edges[0], shown.edges[-1])
            axes.set_ylim(0, 1.05 * top)
            if log:
                axes.set_xscale("log")
                logarithmic(axes.xaxis, *axes.get_xlim())
        made.label(xlabel, "density per decade" if log else "density")
        return made.figure
