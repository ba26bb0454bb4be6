"""Figures 3a, 3b and 5: training curves.

Figure 3a has the distributional variance L and its surrogate L̂ on PACS, from two runs of RDM, one
that minimises L̂ and one that minimises L. Figure 3b has the test accuracy of RDM, CORAL and Fish on
PACS, all with the batch size of RDM; the paper shows one trial, this figure the mean and standard
deviation of three. Figure 5 has the matching loss L̂ of RDM on training and validation samples of
OfficeHome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.experiments.images import runs_without, shared_batch_size, write_figure
from riskmatch.report.figures import Curve, Lines
from riskmatch.report.figures.training import gap, matching
from riskmatch.report.style import BLUE, DASHED, DOTTED, GREEN, VERMILION, LineStyle
from riskmatch.report.titles import setup
from riskmatch.runs.frame import frame_of
from riskmatch.runs.method import facts_of
from riskmatch.sweep.plan import PlannedRun

INTERVAL = {"smoke": 5, "laptop": 3, "paper": 15}
"""Steps between two points: the paper's, and a fifth where runs have a fifth of the steps."""
TITLES = {"worst": "RDM with L̂", "variance": "RDM with L"}
STYLES = {
    "rdm": LineStyle(VERMILION, width=2.0),
    "coral": LineStyle(GREEN, DASHED),
    "fish": LineStyle(BLUE, DOTTED),
}


def _experiment(
    number: str,
    summary: str,
    data: str,
    domain: str,
    methods: tuple[str, ...],
    curves: Callable[[FinishedRuns, int], tuple[Lines, list[str]]],
    variants: tuple[Mapping[str, Any], ...] = ({},),
    trials: int = 1,
) -> Experiment:
    """A figure of the evaluations after RDM's warm-up, with one test domain.

    ``curves`` returns the plot and the lines of the summary from the runs and the first step.
    """

    def plan(scope: Scope) -> list[PlannedRun]:
        (data,) = scope.data
        shared = {"eval_every": INTERVAL[scope.budget]} | shared_batch_size(data, scope)
        return [
            run
            for fields in variants
            for run in runs_without(domain, scope, methods, {**fields, **shared}, trials)
        ]

    def write(finished: FinishedRuns) -> Output:
        warmup = max(int(run.config.hparams.get("warmup", 0)) for run in finished.planned)
        plot, lines = curves(finished, warmup)
        config = finished.planned[0].config
        note = (
            f"Test domain {config.test_domains[0]}; every {config.eval_every} steps from the end "
            f"of RDM's warm-up on. {plot.note}"
        )
        return write_figure(finished, replace(plot, note=note), "\n".join(lines))

    return Experiment(
        f"Figure {number}",
        summary,
        (data,),
        plan,
        write,
        options=("preset",),
        partial=False,
        predictions=True,
    )


def _gap(finished: FinishedRuns, warmup: int) -> tuple[Lines, list[str]]:
    plot = gap({TITLES[run.config.hparams["match"]]: run for run in finished.stored}, warmup)
    lines = []
    for title, (worst, variance) in plot.panels.items():
        share = fmean(w >= v for w, v in zip(worst.y, variance.y, strict=True))
        lines.append(
            f"{title}: mean L̂ {fmean(worst.y):.4f}, mean L {fmean(variance.y):.4f}; "
            f"L̂ ≥ L at {share:.0%} of {len(worst.y)} evaluations"
        )
    return plot, lines


def _accuracy(finished: FinishedRuns, warmup: int) -> tuple[Lines, list[str]]:
    domain = finished.planned[0].config.test_domains[0]
    batch = finished.planned[0].config.batch_size
    frame = frame_of(finished.records.values())
    frame = frame[frame["step"] >= warmup]
    curves = []
    for method, style in STYLES.items():
        runs = frame[frame["method"] == method]
        points = (100 * runs[f"accuracy/train/{domain}"]).groupby(runs["step"])
        mean, sd = points.mean(), points.std().fillna(0.0)
        steps = [int(step) for step in mean.index]
        curves.append(Curve(facts_of(method).title, steps, mean.tolist(), style, sd.tolist()))
    plot = Lines(
        "Accuracy on the test domain during training",
        "step",
        f"Mean and standard deviation over trials; batch size {batch} per domain for all methods. "
        f"{setup(r.config for r in finished.planned)}",
        {"": curves},
        "accuracy, %",
    )
    lines = [f"{one.label}: mean {fmean(one.y):.1f}, last {one.y[-1]:.1f}" for one in curves]
    return plot, ["Accuracy, per cent:", *lines]


def _matching(finished: FinishedRuns, warmup: int) -> tuple[Lines, list[str]]:
    (run,) = finished.stored
    plot = matching({"": run}, warmup)
    lines = [f"{c.label}: mean L̂ {fmean(c.y):.4f}, last {c.y[-1]:.4f}" for c in plot.panels[""]]
    return plot, lines


FIG3A = _experiment(
    "3a",
    "gap between L and L̂ during training",
    "pacs",
    "sketch",
    ("rdm",),
    _gap,
    tuple({"match": match} for match in TITLES),
)
FIG3B = _experiment(
    "3b",
    "test accuracy of RDM, CORAL and Fish during training",
    "pacs",
    "sketch",
    tuple(STYLES),
    _accuracy,
    trials=3,
)
FIG5 = _experiment(
    "5",
    "matching loss of RDM on training and validation samples of OfficeHome",
    "officehome",
    "Art",
    ("rdm",),
    _matching,
)
