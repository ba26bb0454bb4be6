"""Figure 5: matching loss L̂ of RDM on training and validation samples of OfficeHome."""

from __future__ import annotations

from statistics import fmean

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output
from riskmatch.experiments.images import (
    after_warmup,
    curve_fields,
    runs_without,
    stored_run,
    warmup_of,
    write_figure,
)
from riskmatch.report.figures.training import matching


def _write(finished: FinishedRuns) -> Output:
    (run,) = finished.planned
    plot = matching({"": stored_run(finished, run)}, warmup_of(finished.planned))
    lines = [f"{c.label}: mean L̂ {fmean(c.y):.4f}, last {c.y[-1]:.4f}" for c in plot.panels[""]]
    return write_figure(finished, after_warmup(plot, finished), "\n".join(lines))


FIG5 = Experiment(
    "Figure 5",
    "matching loss of RDM on training and validation samples of OfficeHome",
    ("officehome",),
    lambda scope: runs_without("Art", scope, ("rdm",), curve_fields(scope.budget)),
    _write,
    partial=False,
    predictions=True,
)
