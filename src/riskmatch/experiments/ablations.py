"""Figures 4a, 4b, 6 and 7: accuracy against the matching coefficient λ and the batch size."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from riskmatch.experiments.experiment import Experiment, Finished, Request, Result
from riskmatch.experiments.on_images import comparison, runs
from riskmatch.experiments.plots import write_plot
from riskmatch.report.figures.ablation import ablation_plot
from riskmatch.report.figures.on_file import about
from riskmatch.sweep.plan import PlannedRun, Protocol

Varied = Literal["weight", "batch_size"]
VALUES: dict[Varied, tuple[float, ...]] = {
    "weight": (0.1, 1.0, 2.5, 5.0, 7.5, 10.0),
    "batch_size": (10, 30, 50, 70, 100),
}
"""Those of the paper for λ; it does not print its batch sizes, of which it finds the best between
70 and 100, and between 30 and 60 on the large data sets."""
TRIALS = 3
OTHERS = ("vlcs", "officehome", "terraincognita", "domainnet")


def protocols(request: Request, name: Varied) -> list[Protocol]:
    """RDM with every value of one hyper-parameter, the others being its defaults."""
    values = VALUES[name][::3] if request.budget == "smoke" else VALUES[name]
    return [
        replace(one, draws=1, trials=min(TRIALS, one.trials))
        for data in request.data
        for value in values
        for one in comparison(data, request.budget, ("rdm",), {name: value})
    ]


def plan(request: Request, name: Varied) -> list[PlannedRun]:
    """The runs; whoever stops early has all values of the first trials."""
    return sorted(runs(protocols(request, name)), key=lambda run: run.config.trial)


def write(finished: Finished[PlannedRun], name: Varied) -> Result:
    """The figure of the runs that are done, a panel for each data set."""
    done = finished.records.values()
    plot = ablation_plot(done, name, about(record.config for record in done))
    lines = [
        f"{data}: " + ", ".join(f"{x:g}: {y:.1f}" for x, y in zip(line.x, line.y, strict=True))
        for data, drawn in plot.panels.items()
        for line in drawn
    ]
    return write_plot(finished, plot, "\n".join(["Accuracy, per cent:", *lines]))


def _experiment(
    number: str, name: Varied, data: tuple[str, ...], of: str
) -> Experiment[PlannedRun]:
    called = {"weight": "the matching coefficient λ", "batch_size": "the batch size"}[name]
    return Experiment(
        f"Figure {number}",
        f"accuracy of RDM against {called} on {of}",
        data,
        lambda request: plan(request, name),
        lambda finished: write(finished, name),
        options=("data",) if len(data) > 1 else (),
        draws=True,
    )


ABLATIONS: dict[str, Experiment[PlannedRun]] = {
    "fig4a": _experiment("4a", "weight", ("pacs",), "PACS"),
    "fig4b": _experiment("4b", "batch_size", ("pacs",), "PACS"),
    "fig6": _experiment("6", "batch_size", OTHERS, "the other benchmarks"),
    "fig7": _experiment("7", "weight", OTHERS, "the other benchmarks"),
}
