"""Figures that can be drawn from any runs, by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from riskmatch.files import read_file, refuse_input, write_whole
from riskmatch.report.facts import joined
from riskmatch.report.figures.canvas import SUFFIXES, save
from riskmatch.report.figures.plot import Plot, read_plot
from riskmatch.report.figures.risks import cdf, densities, last_predictions
from riskmatch.report.figures.training import (
    ablation,
    curves,
    gap,
    matching,
    terms,
    worst_domains,
)
from riskmatch.report.selected import read_runs
from riskmatch.report.style import INCHES, Width
from riskmatch.report.titles import run_titles
from riskmatch.runs.frame import folders_of, read_results
from riskmatch.selection import recorded_metric
from riskmatch.trust import imports_nothing
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from riskmatch.data import OnProgress
    from riskmatch.runs.frame import Paths

NUMBERS = ".json"
"""Suffix of a file with the numbers of a figure."""
MAX_PANELS = 12
"""Most panels of one figure."""


class FigureType(NamedTuple):
    """A figure that can be drawn from runs: one panel per run, or all runs together."""

    summary: str
    per_run: Callable[..., Plot] | None = None
    """Takes runs by title, ``load`` if ``at_end``, and a metric if ``judged``."""
    at_end: bool = False
    """Whether it is drawn from the predictions at the end of a run."""
    over_runs: Callable[..., Plot] | None = None
    """Takes the data frame of all runs, and a metric."""
    judged: bool = False
    """Whether it shows a metric."""


FIGURES: dict[str, FigureType] = {
    "risks": FigureType(
        "histogram and density of the validation risks of every domain", densities, at_end=True
    ),
    "cdf": FigureType(
        "distribution functions of the validation risks of every domain", cdf, at_end=True
    ),
    "curves": FigureType("the metric on every domain during training", curves, judged=True),
    "terms": FigureType("loss, its terms and the unweighted penalties during training", terms),
    "gap": FigureType("distributional variance L and its surrogate L̂ during training", gap),
    "matching": FigureType("L̂ on training and on validation samples during training", matching),
    "worst": FigureType("worst training domain over the steps", worst_domains),
    "ablation": FigureType(
        "the metric against λ or the batch size, over many runs", over_runs=ablation, judged=True
    ),
}


def list_figures() -> dict[str, str]:
    """Names of the figures, each with what it shows.

    Example:
        >>> list_figures()["curves"]
        'the metric on every domain during training'
    """
    return {name: figure.summary for name, figure in FIGURES.items()}


@imports_nothing
def draw_figure(
    name: str | Path,
    runs: Paths = (),
    out: str | Path | None = None,
    *,
    width: Width | None = None,
    metric: str | None = None,
    data_dir: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Figure:
    """Draw a figure from runs, or from a JSON file with its numbers.

    Args:
        name: a name of :data:`FIGURES`, or a path that ends in ``.json``.
        runs: folders of runs, of several runs, or of sweeps; or runs.
        out: file to write: .png, .svg or .pdf, or .json with the numbers, from which the figure can
            be drawn again; None writes no file.
        width: ``"column"`` (3.3 inches) or ``"page"`` (6.9 inches); by default column width for a
            single panel.
        metric: name of what curves and ablation show; None is the primary metric of the runs.
        data_dir: folder that is searched first for the data set, where predictions at the end of
            a run are not stored and have to be computed from its checkpoint.
        on_progress: called while they are computed.

    Raises:
        ValueError: the name or the suffix is unknown, there is nothing to draw, no run has the
            metric, or ``out`` is an input.
        FileNotFoundError: there are no runs, or they lack what the figure shows.

    See :mod:`riskmatch.report` for an example.
    """
    if width is not None:
        check_option("width", width, INCHES)
    if out is not None:
        check_option("suffix of out", Path(out).suffix, (*SUFFIXES, NUMBERS))
        folders = folders_of(runs)
        with suppress(OSError, ValueError):
            read_plot(read_file(Path(out)).decode())
            folders = []  # an earlier figure in a folder of runs is replaced
        refuse_input(Path(out), name, *folders, within=(NUMBERS,))
    plot = plot_runs(name, runs, data_dir, on_progress, metric=metric)
    figure = plot.draw(width)
    if out is not None and Path(out).suffix == NUMBERS:
        write_whole(Path(out), plot.json().encode())
    elif out is not None:
        save(figure, Path(out))
    return figure


@imports_nothing
def plot_runs(
    name: str | Path,
    runs: Paths = (),
    data_dir: Path | None = None,
    on_progress: OnProgress | None = None,
    *,
    metric: str | None = None,
) -> Plot:
    """Numbers of a figure; arguments and errors as for :func:`draw_figure`."""
    name = str(name)
    if name.endswith(NUMBERS):
        if runs or metric:
            raise ValueError(f"{name} holds all its numbers; give no runs and no metric with it.")
        try:
            return read_plot(read_file(Path(name)).decode())
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    check_option("figure", name, FIGURES)
    if not runs:
        raise ValueError(f"Give the folders of runs: riskmatch figure {name} runs/ID -o {name}.pdf")
    results = read_results(runs)
    results.warn()
    evaluated = results.frame.dropna(subset="step")
    if evaluated.empty:
        raise ValueError("None of these runs has an evaluation yet; there is nothing to draw.")
    type_ = FIGURES[name]
    judged: dict[str, str] = {}
    if type_.judged:
        judged = {"metric": recorded_metric(results.runs, results.evaluations, metric)}
    elif metric is not None:
        shown = joined(name for name, figure in FIGURES.items() if figure.judged)
        raise ValueError(f"The figure {name} shows no metric; those that do are {shown}.")
    if type_.over_runs:
        return type_.over_runs(evaluated, **judged)
    number = evaluated["run"].nunique()
    if number > MAX_PANELS:
        raise ValueError(f"{number} runs need {number} panels; give at most {MAX_PANELS} runs.")
    stored = read_runs(evaluated)
    titled = dict(zip(run_titles([run.config for run in stored]), stored, strict=True))
    assert type_.per_run
    if type_.at_end:
        load = partial(last_predictions, data_dir=data_dir, on_progress=on_progress)
        return type_.per_run(titled, load)
    return type_.per_run(titled, **judged)
