"""Figures from plain numbers, as matplotlib figures; those of runs are in ``figures.kinds``.

``plot_of("risks", [Path("runs/3f2a…")]).draw("column")`` is the figure of a run at the width of a
column, and ``save`` writes it.
"""

from riskmatch.report.figures.bands import bands
from riskmatch.report.figures.canvas import save
from riskmatch.report.figures.curves import Curve, curves
from riskmatch.report.figures.densities import distributions
from riskmatch.report.figures.plot import Bands, Densities, Lines, Plot, read_plot

__all__ = [
    "Bands",
    "Curve",
    "Densities",
    "Lines",
    "Plot",
    "bands",
    "curves",
    "distributions",
    "read_plot",
    "save",
]
