"""The figures that can be drawn of any runs, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from riskmatch.report.figures.ablation import ablation
from riskmatch.report.figures.history import accuracies, terms, worst
from riskmatch.report.figures.matching import gap, matching
from riskmatch.report.figures.on_file import Runs
from riskmatch.report.figures.plot import Plot
from riskmatch.report.figures.risks import cdf, risks
from riskmatch.report.findings.naming import titles_of
from riskmatch.report.findings.runs import find_runs
from riskmatch.validation import check_option

MOST = 12
"""Panels of one figure."""


class Kind(NamedTuple):
    """A kind of figure."""

    summary: str
    make: Callable[[Runs], Plot]


KINDS: dict[str, Kind] = {
    "risks": Kind("histogram and density of the held-out risks of every domain", risks),
    "cdf": Kind("the distribution functions of the same", cdf),
    "curves": Kind("accuracy on every domain during training", accuracies),
    "terms": Kind("the loss, its terms and the unweighted penalties during training", terms),
    "gap": Kind("the distributional variance L and its stand-in L̂ during training", gap),
    "matching": Kind("L̂ on training and on validation samples during training", matching),
    "worst": Kind("which training domain was worst, and when", worst),
    "ablation": Kind("accuracy against λ or the batch size, over many runs", ablation),
}


def plot_of(name: str, paths: Sequence[Path]) -> Plot:
    """The figure ``name`` of runs; its method ``draw`` gives a matplotlib figure.

    Args:
        name: of ``KINDS``.
        paths: folders of runs, of many runs, or of sweeps.

    Raises:
        ValueError: there is no such figure, or nothing to draw.
        FileNotFoundError: there are no runs, or they lack what the figure shows.
    """
    check_option("figure", name, KINDS)
    found = find_runs(paths)
    for damage in found.damaged:
        warnings.warn(damage, stacklevel=2)
    begun = [run for run in found.runs if run.record.evaluations]
    if not begun:
        raise ValueError("None of these runs has been evaluated yet; there is nothing to draw.")
    if name != "ablation" and len(begun) > MOST:
        raise ValueError(f"{len(begun)} runs would be {len(begun)} panels; name {MOST} or fewer.")
    titles = titles_of([run.config for run in begun])
    return KINDS[name].make(dict(zip(titles, begun, strict=True)))
