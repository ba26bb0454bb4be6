"""Figures: from runs by name (:func:`draw_figure`), or from numbers."""

from riskmatch.report.figures.canvas import SUFFIXES, save
from riskmatch.report.figures.catalogue import (
    FIGURES,
    NUMBERS,
    draw_figure,
    list_figures,
    plot_runs,
)
from riskmatch.report.figures.plot import Bands, Curve, Densities, Lines, Plot, read_plot

__all__ = ["FIGURES", "NUMBERS", "SUFFIXES", "Bands", "Curve", "Densities", "Lines", "Plot"]
__all__ += ["draw_figure", "list_figures", "plot_runs", "read_plot", "save"]
