"""Figure 2: distributions of the risks of ERM and RDM on four domains of ColoredMNIST.

Both runs take 600 steps and share the first 400, which are ERM. The risks are those of the same
digits of MNIST's test set, coloured as in each domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from riskmatch.experiments.colored_mnist import METHODS, domain_name, grid_runs
from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope, save_png
from riskmatch.files import to_json
from riskmatch.report.density import DensityEstimate, bin_edges, finite_risks
from riskmatch.report.figures import Densities
from riskmatch.report.style import BLUE, DASHED, GREEN, PURPLE, VERMILION, LineStyle
from riskmatch.sweep.plan import PlannedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = (0.1, 0.2, 0.5, 0.9)
"""p of the two training domains and of two others."""
BINS = 60
STYLES = (LineStyle(BLUE), LineStyle(GREEN, DASHED), LineStyle(PURPLE), LineStyle(VERMILION))


def _plan(scope: Scope) -> list[PlannedRun]:
    """Two runs of Table 1: ERM and RDM from ERM initialisation, with the first seed."""
    seeds = (scope.seeds or (0,))[:1]
    runs = grid_runs(scope.budget, ["erm", "rdm"], seeds, ["erm"])
    return [run.planned for run in runs if run.value == METHODS[run.method].default]


def _write(finished: FinishedRuns) -> Output:
    from riskmatch.engine.load import final_predictions, load_run

    risks = {}
    for run in finished.planned:
        stored = load_run(finished.runs / run.config.id)
        predictions = final_predictions(stored, finished.data_dir)
        names = {f"{p:g}": domain_name(p, run.config.data_options["p"]) for p in P}
        risks[METHODS[run.config.method].label] = {
            p: finite_risks(predictions[name]["train"]) for p, name in names.items()
        }
    edges = bin_edges([values for by_p in risks.values() for values in by_p.values()], BINS)
    record = {
        model: {p: DensityEstimate.of(values, edges).to_json() for p, values in by_p.items()}
        for model, by_p in risks.items()
    }
    save_png(draw(record), finished.file("png"))
    files = [finished.file("png"), *finished.write({"json": to_json(record, indent=1) + "\n"})]
    means = {
        model: {p: round(values["mean"], 4) for p, values in by_p.items()}
        for model, by_p in record.items()
    }
    lines = [
        f"{model}: " + ", ".join(f"p = {p}: {mean:.3f}" for p, mean in by_p.items())
        for model, by_p in means.items()
    ]
    return Output(files, "\n".join(["Mean risks:", *lines]), means)


def draw(record: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """Draw the figure from the content of the file ``fig2.json``."""
    panels = {
        model: {f"p = {p}": DensityEstimate.from_json(values) for p, values in by_p.items()}
        for model, by_p in record.items()
    }
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    return Densities(
        "Risks of MNIST's test digits in the colours of four domains; ticks mark their means",
        "risk of a sample (cross-entropy)",
        "",
        panels,
        dict(zip(labels, STYLES, strict=False)),
    ).draw("page")


FIG2 = Experiment(
    "Figure 2",
    "distributions of the risks of ERM and RDM on four domains",
    ("colored-mnist",),
    _plan,
    _write,
    options=("seeds",),
    partial=False,
)
