"""The figures that can be drawn of any runs, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from riskmatch.report.figures.ablation import ablation
from riskmatch.report.figures.history import accuracies, terms, worst
from riskmatch.report.figures.matching import gap, matching
from riskmatch.report.figures.on_file import Runs
from riskmatch.report.figures.plot import Plot
from riskmatch.report.figures.risks import cdf, risks


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
