"""The demonstration: ERM against RDM on coloured digits, in about a minute.

The label is "five or more", wrong for a quarter of the samples. The colour agrees with it for 90 %
and 80 % of the two training domains, so it is the better predictor there; in the test domain it
agrees for 10 %. ERM follows the colour. RDM, which asks that the training domains have the same
distribution of risks, has to read the digit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from riskmatch.defaults import configure, recipe
from riskmatch.files import write_whole
from riskmatch.report.distribution import Array, Distribution
from riskmatch.report.figures import distributions
from riskmatch.report.style import BLUE, DASHED, GREEN, VERMILION, Look
from riskmatch.report.tables import Cell, Table
from riskmatch.runs.config import RunConfig

DATA = "colored-digits"
DOMAINS = ("0.9", "0.8", "0.1")
TEST = "0.1"
LOOKS = (Look(BLUE), Look(GREEN, DASHED), Look(VERMILION))
BINS = 50


def runs(seed: int = 0) -> dict[str, RunConfig]:
    """The runs by title; they share their ERM phase."""
    kernel = {"divergence": "mmd", "weight": 3000.0}
    return {
        "ERM": _run("erm", seed, {}),
        "RDM, two moments": _run("rdm", seed, {}),
        "RDM, kernel": _run("rdm", seed, kernel),
    }


def _run(method: str, seed: int, choices: Mapping[str, Any]) -> RunConfig:
    values = {**recipe(method, DATA), **choices, "seed": seed, "data_options": {"seed": seed}}
    if method == "rdm":
        warmup, values["warmup"] = values["warmup"], 0
    else:
        warmup = recipe("rdm", DATA)["warmup"]
    return configure(method, DATA, (TEST,), {**values, "pretrain": warmup})


def write(planned: Mapping[str, RunConfig], out: Path) -> tuple[list[Path], Table]:
    """Write table, figure and numbers of the runs in ``out / "runs"``; returns files and table."""
    found = {title: held_out(config, out / "runs") for title, config in planned.items()}
    everything = np.concatenate([r for named in found.values() for _, r in named.values()])
    edges = np.linspace(0, np.quantile(everything, 0.99), BINS + 1).tolist()
    record = {
        title: {
            name: {"accuracy": accuracy, "risks": Distribution.of(risks, edges).to_json()}
            for name, (accuracy, risks) in named.items()
        }
        for title, named in found.items()
    }
    table = summary(record)
    write_whole(out / "demo.json", (json.dumps(record, indent=1) + "\n").encode())
    write_whole(out / "demo.md", (table.markdown() + "\n").encode())
    draw(record).savefig(out / "demo.png")
    return [out / f"demo.{suffix}" for suffix in ("png", "md", "json")], table


def summary(record: Mapping[str, Any]) -> Table:
    """Accuracy and mean risk of every run on every domain."""
    rows: list[tuple[Cell, ...]] = []
    for title, named in record.items():
        accuracies = (f"{100 * named[name]['accuracy']:.1f}" for name in DOMAINS)
        risks = (f"{named[name]['risks']['mean']:.3f}" for name in DOMAINS)
        rows.append((title, *accuracies, *risks))
    names = [f"{float(name):.0%}{' (test)' * (name == TEST)}" for name in DOMAINS]
    return Table(
        "Held-out samples, by how often the colour agrees with the label: accuracy in per cent, "
        "and the mean risk. The shape alone can reach 75.",
        ("method", *(f"accuracy, {name}" for name in names), *(f"risk, {name}" for name in names)),
        tuple(rows),
    )


def draw(record: Mapping[str, Any]) -> Any:
    """The distributions of the risks, a panel for each run."""
    panels = {
        title: {
            f"colour agrees {float(name):.0%}, {'test' if name == TEST else 'training'}": (
                Distribution.from_json(named[name]["risks"])
            )
            for name in DOMAINS
        }
        for title, named in record.items()
    }
    return distributions(
        panels,
        LOOKS,
        title="Risks of held-out samples by domain; ticks mark their means",
        xlabel="risk of a sample (cross-entropy)",
    )


def held_out(config: RunConfig, out: Path) -> dict[str, tuple[float, Array]]:
    """Accuracy and risks of a run's final model on the validation samples of every domain."""
    import torch

    from riskmatch.contract import cross_entropy_risks
    from riskmatch.data import split
    from riskmatch.engine.final import final_model

    model, domains = final_model(config, out)
    found = {}
    for domain in domains.domains:
        part = split(domain, config.trial)["val"]
        with torch.no_grad():
            logits = model(part.x)[1]
        accuracy = (logits.argmax(1) == part.y).double().mean().item()
        found[domain.name] = accuracy, cross_entropy_risks(logits, part.y).double().numpy()
    return found
