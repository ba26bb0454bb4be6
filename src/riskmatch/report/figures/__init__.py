"""Figures from plain numbers, and from runs; each function returns a matplotlib figure."""

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
