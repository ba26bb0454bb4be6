"""Figure 3b: test accuracy of RDM, CORAL and Fish during training on PACS.

The paper shows one trial, this figure the mean and standard deviation of three.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, pstdev

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output
from riskmatch.experiments.images import (
    after_warmup,
    curve_fields,
    runs_without,
    warmup_of,
    write_figure,
)
from riskmatch.report import titles
from riskmatch.report.figures import Curve, Lines
from riskmatch.report.naming import setup
from riskmatch.report.style import BLUE, DASHED, DOTTED, GREEN, VERMILION, LineStyle

STYLES = {
    "rdm": LineStyle(VERMILION, width=2.0),
    "coral": LineStyle(GREEN, DASHED),
    "fish": LineStyle(BLUE, DOTTED),
}
TRIALS = 3


def _write(finished: FinishedRuns) -> Output:
    curves = [_curve(finished, method) for method in STYLES]
    plot = Lines(
        "Accuracy on the test domain during training",
        "step",
        f"Mean and standard deviation over trials. {setup(r.config for r in finished.planned)}",
        {"": curves},
        "accuracy, %",
    )
    lines = [
        f"{curve.label}: mean {fmean(curve.y):.1f}, last {curve.y[-1]:.1f}" for curve in curves
    ]
    text = "\n".join(["Accuracy, per cent:", *lines])
    return write_figure(finished, after_warmup(plot, finished), text)


def _curve(finished: FinishedRuns, method: str) -> Curve:
    """Test accuracy of a method at every evaluation after RDM's warm-up, over trials."""
    start = warmup_of(finished.planned)
    by_step: dict[int, list[float]] = defaultdict(list)
    for run in finished.planned:
        if run.config.method == method:
            for evaluation in finished.records[run.config.id].evaluations:
                if evaluation.step >= start:
                    score = evaluation.scores[run.config.test_domains[0]]["train"]
                    by_step[evaluation.step].append(100 * score.accuracy)
    points = dict(sorted(by_step.items()))
    return Curve(
        titles.METHODS[method],
        list(points),
        [fmean(values) for values in points.values()],
        STYLES[method],
        [pstdev(values) for values in points.values()],
    )


FIG3B = Experiment(
    "Figure 3b",
    "test accuracy of RDM, CORAL and Fish during training",
    ("pacs",),
    lambda scope: runs_without("sketch", scope, tuple(STYLES), curve_fields(scope.budget), TRIALS),
    _write,
    partial=False,
    predictions=True,  # one of its runs is also a run of Figure 3a
)
