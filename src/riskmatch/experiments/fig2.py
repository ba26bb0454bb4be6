"""Figure 2: the risks of ERM and of RDM, domain by domain.

The risks of ERM and of RDM after 600 steps, of which they share the first 400, on the same digits
of MNIST's test set in the colours of four domains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskmatch.experiments import table1
from riskmatch.experiments.experiment import Finished, Request, Result
from riskmatch.experiments.rows import METHODS
from riskmatch.experiments.table1 import Planned
from riskmatch.files import write_whole
from riskmatch.report.distribution import Array, Distribution
from riskmatch.report.figures import distributions
from riskmatch.report.style import BLUE, DASHED, GREEN, PURPLE, VERMILION, Look
from riskmatch.runs.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = (0.1, 0.2, 0.5, 0.9)
"""The domains: the two of training, and two others."""
BINS = 60
LOOKS = (Look(BLUE), Look(GREEN, DASHED), Look(PURPLE), Look(VERMILION))
SHOWN = 0.99
"""The share of the risks, all taken together, that lies inside the axes."""


def plan(request: Request) -> list[Planned]:
    """The two runs, both from ERM, which are runs of Table 1; of the first seed."""
    seeds = (request.seeds or (0,))[:1]
    runs = table1.plan(request.budget, ["erm", "rdm"], seeds, ["erm"])
    return [run for run in runs if run.value == METHODS[run.method].usual]


def write(finished: Finished[Planned]) -> Result:
    """The figure, and what it shows as JSON."""
    risks = {
        METHODS[run.method].label: risks_of(run.config, finished.runs, finished.data_dir)
        for run in finished.planned
    }
    record = describe(risks)
    write_whole(finished.file("json"), (json.dumps(record, indent=1) + "\n").encode())
    draw(record).savefig(finished.file("png"))
    means = {
        model: {p: round(shown["mean"], 4) for p, shown in named.items()}
        for model, named in record.items()
    }
    lines = [
        f"{model}: " + ", ".join(f"p = {p}: {mean:.3f}" for p, mean in named.items())
        for model, named in means.items()
    ]
    text = "\n".join(["Mean risks:", *lines])
    return Result([finished.file("png"), finished.file("json")], text, means)


def describe(risks: dict[str, dict[str, Array]]) -> dict[str, dict[str, dict[str, Any]]]:
    """The distribution of every model's risks on every domain, all on the same bins, as JSON."""
    everything = np.concatenate([values for named in risks.values() for values in named.values()])
    edges = np.linspace(0, np.quantile(everything, SHOWN), BINS + 1).tolist()
    return {
        model: {p: Distribution.of(values, edges).to_json() for p, values in named.items()}
        for model, named in risks.items()
    }


def draw(record: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """The figure, from what :func:`describe` returns or the file ``fig2.json`` holds."""
    panels = {
        model: {f"p = {p}": Distribution.from_json(values) for p, values in named.items()}
        for model, named in record.items()
    }
    return distributions(
        panels,
        LOOKS,
        title="Risks of MNIST's test digits in the colours of four domains; ticks mark their means",
        xlabel="risk of a sample (cross-entropy)",
    )


def risks_of(config: RunConfig, out: Path, data_dir: Path | None = None) -> dict[str, Array]:
    """The risk of every test digit under the final weights of a run, by p."""
    import torch

    from riskmatch.contract import cross_entropy_risks
    from riskmatch.engine.final import final_model

    model, domains = final_model(config, out, data_dir)
    names = {p: table1.domain(p, config.data_options["p"]) for p in P}
    found = {domain.name: domain for domain in domains.domains}
    with torch.no_grad():
        return {
            f"{p:g}": cross_entropy_risks(model(found[name].x)[1], found[name].y).double().numpy()
            for p, name in names.items()
        }
