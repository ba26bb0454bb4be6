"""Figure 2: distributions of the risks of ERM and RDM on four domains of ColoredMNIST.

Both runs take 600 steps and share the first 400, which are ERM. The risks are those of the same
digits of MNIST's test set, coloured as in each domain.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskmatch.experiments.colored_mnist import METHODS, domain_name, grid_runs
from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.files import to_json, write_whole
from riskmatch.report.density import Array, DensityEstimate
from riskmatch.report.figures import draw_densities
from riskmatch.report.style import BLUE, DASHED, GREEN, PURPLE, VERMILION, LineStyle
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.plan import PlannedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = (0.1, 0.2, 0.5, 0.9)
"""p of the two training domains and of two others."""
BINS = 60
STYLES = (LineStyle(BLUE), LineStyle(GREEN, DASHED), LineStyle(PURPLE), LineStyle(VERMILION))
QUANTILE = 0.99
"""Share of all risks that the axes show."""
PANELS = {METHODS[name].objective: METHODS[name].label for name in ("erm", "rdm")}


def _plan(scope: Scope) -> list[PlannedRun]:
    """Two runs of Table 1: ERM and RDM from ERM initialisation, with the first seed."""
    seeds = (scope.seeds or (0,))[:1]
    runs = grid_runs(scope.budget, ["erm", "rdm"], seeds, ["erm"])
    return [run.planned for run in runs if run.value == METHODS[run.method].default]


def _write(finished: FinishedRuns) -> Output:
    risks = {
        PANELS[run.config.method]: _risks(
            run.config, finished.runs / run.config.id, finished.data_dir
        )
        for run in finished.planned
    }
    record = _describe(risks)
    write_whole(finished.file("json"), (to_json(record, indent=1) + "\n").encode())
    draw(record).savefig(finished.file("png"))
    means = {
        model: {p: round(values["mean"], 4) for p, values in by_p.items()}
        for model, by_p in record.items()
    }
    lines = [
        f"{model}: " + ", ".join(f"p = {p}: {mean:.3f}" for p, mean in by_p.items())
        for model, by_p in means.items()
    ]
    text = "\n".join(["Mean risks:", *lines])
    return Output([finished.file("png"), finished.file("json")], text, means)


def _describe(risks: dict[str, dict[str, Array]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Distributions as JSON by model and p, all on the same bins."""
    everything = np.concatenate([values for by_p in risks.values() for values in by_p.values()])
    edges = np.linspace(0, np.quantile(everything, QUANTILE), BINS + 1).tolist()
    return {
        model: {p: DensityEstimate.of(values, edges).to_json() for p, values in by_p.items()}
        for model, by_p in risks.items()
    }


def draw(record: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """Draw the figure from the content of the file ``fig2.json``."""
    panels = {
        model: {f"p = {p}": DensityEstimate.from_json(values) for p, values in by_p.items()}
        for model, by_p in record.items()
    }
    return draw_densities(
        panels,
        STYLES,
        title="Risks of MNIST's test digits in the colours of four domains; ticks mark their means",
        xlabel="risk of a sample (cross-entropy)",
    )


def _risks(config: RunConfig, folder: Path, data_dir: Path | None) -> dict[str, Array]:
    """Risks of MNIST's test digits under the final model of a run, by p."""
    from riskmatch.engine.load import final_predictions

    predictions = final_predictions(config, folder, data_dir)
    names = {p: domain_name(p, config.data_options["p"]) for p in P}
    return {
        f"{p:g}": predictions[name]["train"].risk.astype(np.float64) for p, name in names.items()
    }


FIG2 = Experiment(
    "Figure 2",
    "distributions of the risks of ERM and RDM on four domains",
    ("colored-mnist",),
    _plan,
    _write,
    options=("seeds",),
    partial=False,
)
