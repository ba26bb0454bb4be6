"""Figures 4a, 4b, 6 and 7: accuracy of RDM against the matching coefficient λ and the batch size.

Figure 4 is on PACS, Figures 6 (batch size) and 7 (λ) on the other image benchmarks. All other
hyper-parameters are the defaults.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.experiments.images import planned_runs, protocol, write_figure
from riskmatch.report.figures.training import ablation_plot
from riskmatch.runs.frame import frame_of
from riskmatch.sweep.plan import PlannedRun

HParam = Literal["weight", "batch_size"]
VALUES: dict[HParam, tuple[float, ...]] = {
    "weight": (0.1, 1.0, 2.5, 5.0, 7.5, 10.0),
    "batch_size": (10, 30, 50, 70, 100),
}
"""The paper's values of λ. It does not list its batch sizes; it reports that the best are between
70 and 100, and on the large data sets between 30 and 60."""
DOMAINNET_WEIGHTS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Values of λ on DomainNet, where the paper searches from 0.1 to 1."""
TRIALS = 3


def ablation(number: str, name: HParam, data: tuple[str, ...]) -> Experiment:
    """A figure of the accuracy of RDM against one hyper-parameter, a panel for each data set."""
    hparam = {"weight": "the matching coefficient λ", "batch_size": "the batch size"}[name]
    where = "PACS" if data == ("pacs",) else "the other image benchmarks"
    return Experiment(
        f"Figure {number}",
        f"accuracy of RDM against {hparam} on {where}",
        data,
        lambda scope: _plan(scope, name),
        lambda finished: _write(finished, name),
        options=("data", "preset") if len(data) > 1 else ("preset",),
    )


def _plan(scope: Scope, name: HParam) -> list[PlannedRun]:
    """Runs sorted by trial, so that an interrupted sweep has all values of the first trials."""
    whole = [
        protocol(data, scope, ("rdm",), {name: value})
        for data in scope.data
        for value in values_on(data, name)[:: 3 if scope.budget == "smoke" else 1]
    ]
    runs = planned_runs(replace(p, draws=1, trials=min(TRIALS, p.trials)) for p in whole)
    return sorted(runs, key=lambda run: run.config.trial)


def values_on(data: str, name: HParam) -> tuple[float, ...]:
    """Values of the figure on a data set; λ stays within the range that is searched there."""
    return DOMAINNET_WEIGHTS if (data, name) == ("domainnet", "weight") else VALUES[name]


def _write(finished: FinishedRuns, name: HParam) -> Output:
    plot = ablation_plot(frame_of(finished.records.values()), name)
    lines = [
        f"{data}: " + ", ".join(f"{x:g}: {y:.1f}" for x, y in zip(curve.x, curve.y, strict=True))
        for data, curves in plot.panels.items()
        for curve in curves
    ]
    return write_figure(finished, plot, "\n".join(["Accuracy, per cent:", *lines]))
