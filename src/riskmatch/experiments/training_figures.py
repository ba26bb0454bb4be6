"""Figures 3a, 3b and 5: what happens during training, once RDM has left its warm-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from riskmatch.experiments.experiment import Experiment, Finished, Request, Result
from riskmatch.experiments.plots import often, on_file, without, write_plot
from riskmatch.report import titles
from riskmatch.report.figures import Curve, Lines
from riskmatch.report.figures.matching import gap, matching
from riskmatch.report.figures.on_file import about
from riskmatch.report.style import BLUE, DASHED, DOTTED, GREEN, VERMILION, Look
from riskmatch.sweep.plan import PlannedRun

LOOKS = {
    "rdm": Look(VERMILION, width=2.0),
    "coral": Look(GREEN, DASHED),
    "fish": Look(BLUE, DOTTED),
}
TRIALS = 3
"""Of the learning curves; the paper shows one."""


def warmup(planned: Sequence[PlannedRun]) -> int:
    """The steps of ERM that RDM begins with."""
    return max(int(run.config.hparams.get("warmup", 0)) for run in planned)


def plan_gap(request: Request) -> list[PlannedRun]:
    """RDM with L̂ and RDM with L."""
    return [
        run
        for match in ("worst", "variance")
        for run in without("sketch", request, ("rdm",), {"match": match, **often(request.budget)})
    ]


def write_gap(finished: Finished[PlannedRun]) -> Result:
    """L and L̂ of both runs."""
    names = {"worst": "RDM that matches by L̂", "variance": "RDM that matches by L"}
    runs = {names[run.config.hparams["match"]]: on_file(finished, run) for run in finished.planned}
    plot = _captioned(gap(runs, warmup(finished.planned)), finished)
    lines = []
    for title, (worst, variance) in plot.panels.items():
        above = fmean(w >= v for w, v in zip(worst.y, variance.y, strict=True))
        lines.append(
            f"{title}: mean L̂ {fmean(worst.y):.4f}, mean L {fmean(variance.y):.4f}; "
            f"L̂ is the larger at {above:.0%} of {len(worst.y)} steps"
        )
    return write_plot(finished, plot, "\n".join(lines))


def plan_curves(request: Request) -> list[PlannedRun]:
    """RDM, CORAL and Fish."""
    return without("sketch", request, tuple(LOOKS), often(request.budget), TRIALS)


def write_curves(finished: Finished[PlannedRun]) -> Result:
    """The accuracy on the test domain, mean and standard deviation over trials."""
    configs = [run.config for run in finished.planned]
    lines = [_curve(finished, method, warmup(finished.planned)) for method in LOOKS]
    plot = Lines(
        "Accuracy on the test domain during training",
        "step",
        f"Mean and standard deviation over trials. {about(configs)}",
        {"": lines},
        "accuracy, %",
    )
    told = [f"{line.label}: mean {fmean(line.y):.1f}, last {line.y[-1]:.1f}" for line in lines]
    return write_plot(
        finished, _captioned(plot, finished), "\n".join(["Accuracy, per cent:", *told])
    )


def _captioned(plot: Lines, finished: Finished[PlannedRun]) -> Lines:
    config = finished.planned[0].config
    said = f"Without {config.test_domains[0]}, every {config.eval_every} steps from the end of "
    return replace(plot, note=f"{said}RDM's warm-up on. {plot.note}")


def _curve(finished: Finished[PlannedRun], method: str, start: int) -> Curve:
    by_step: dict[int, list[float]] = defaultdict(list)
    for run in finished.planned:
        if run.config.method == method:
            for found in finished.records[run.config.id].evaluations:
                score = found.scores[run.config.test_domains[0]]["train"]
                by_step[found.step].append(100 * score.accuracy)
    shown = {step: values for step, values in sorted(by_step.items()) if step >= start}
    return Curve(
        titles.METHODS[method],
        list(shown),
        [fmean(values) for values in shown.values()],
        LOOKS[method],
        [pstdev(values) for values in shown.values()],
    )


def plan_matching(request: Request) -> list[PlannedRun]:
    """RDM."""
    return without("Art", request, ("rdm",), often(request.budget))


def write_matching(finished: Finished[PlannedRun]) -> Result:
    """L̂ on training and on validation samples."""
    (run,) = finished.planned
    plot = _captioned(matching({"": on_file(finished, run)}, warmup(finished.planned)), finished)
    lines = [f"{c.label}: mean L̂ {fmean(c.y):.4f}, last {c.y[-1]:.4f}" for c in plot.panels[""]]
    return write_plot(finished, plot, "\n".join(lines))


TRAINING_FIGURES: dict[str, Experiment[PlannedRun]] = {
    "fig3a": Experiment(
        "Figure 3a",
        "the gap between L and L̂ during training",
        ("pacs",),
        plan_gap,
        write_gap,
        partial=False,
        draws=True,
        predictions=True,
    ),
    "fig3b": Experiment(
        "Figure 3b",
        "the learning curves of RDM, CORAL and Fish on the test domain",
        ("pacs",),
        plan_curves,
        write_curves,
        partial=False,
        draws=True,
        predictions=True,  # one of its runs is also one of Figure 3a
    ),
    "fig5": Experiment(
        "Figure 5",
        "RDM's matching loss on training and on validation samples of OfficeHome",
        ("officehome",),
        plan_matching,
        write_matching,
        partial=False,
        draws=True,
        predictions=True,
    ),
}
