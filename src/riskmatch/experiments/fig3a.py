"""Figure 3a: the distributional variance L and its surrogate L̂ during training on PACS.

Two runs of RDM, one that minimises L̂ and one that minimises L, each showing both.
"""

from __future__ import annotations

from statistics import fmean

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.experiments.images import (
    after_warmup,
    curve_fields,
    runs_without,
    stored_run,
    warmup_of,
    write_figure,
)
from riskmatch.report.figures.training import gap
from riskmatch.sweep.plan import PlannedRun

TITLES = {"worst": "RDM with L̂", "variance": "RDM with L"}


def _plan(scope: Scope) -> list[PlannedRun]:
    return [
        run
        for match in TITLES
        for run in runs_without(
            "sketch", scope, ("rdm",), {"match": match, **curve_fields(scope.budget)}
        )
    ]


def _write(finished: FinishedRuns) -> Output:
    runs = {
        TITLES[run.config.hparams["match"]]: stored_run(finished, run) for run in finished.planned
    }
    plot = gap(runs, warmup_of(finished.planned))
    lines = []
    for title, (worst, variance) in plot.panels.items():
        share = fmean(w >= v for w, v in zip(worst.y, variance.y, strict=True))
        lines.append(
            f"{title}: mean L̂ {fmean(worst.y):.4f}, mean L {fmean(variance.y):.4f}; "
            f"L̂ ≥ L at {share:.0%} of {len(worst.y)} evaluations"
        )
    return write_figure(finished, after_warmup(plot, finished), "\n".join(lines))


FIG3A = Experiment(
    "Figure 3a",
    "gap between L and L̂ during training",
    ("pacs",),
    _plan,
    _write,
    partial=False,
    predictions=True,
)
