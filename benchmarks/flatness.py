"""Selection without the test domain on ColoredMNIST: is there a flat model among the runs?

`python benchmarks/flatness.py` reads the runs of Table 1 in results/colored-mnist, and those of
other settings in results/colored-mnist-flat, as far as they are done, and writes flat.md to the
first. `python benchmarks/flatness.py plan` plans the latter, on seed 0; train them with
`riskmatch sweep run results/colored-mnist-flat`.

The rule uses the validation digits of the training domains p = 0.1 and 0.2 alone: of all steps
after the ERM phase at which their mean risks differ by at most a tolerance, the one with the lowest
mean risk, over all runs of a seed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from riskmatch import results
from riskmatch.experiments.colored_mnist import METHODS, PRETRAIN, TEST_P, domain_name, grid_runs
from riskmatch.report.tables import Cell, Spread, Table
from riskmatch.sweep.plan import PlannedRun, extend

FOLDER = Path(__file__).resolve().parent.parent / "results" / "colored-mnist"
TRAINING = (0.1, 0.2)
OTHERS = FOLDER.parent / "colored-mnist-flat"
FAMILIES = {"RDM": ("rdm", "rdm-mmd", "other"), "VREx": ("vrex",)}
TOLERANCES = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03)
SETTINGS: dict[str, tuple[dict[str, Any], int, tuple[float, ...]]] = {
    "kernel of the paper": ({"divergence": "mmd", "kernel": "paper"}, 0, (300.0, 1000.0, 3000.0)),
    "L, two moments": ({"match": "variance"}, 0, (2500.0, 10000.0)),
    "L, kernel": ({"match": "variance", "divergence": "mmd"}, 0, (300.0, 1000.0)),
    "energy distance": ({"divergence": "energy"}, 0, (100.0, 1000.0)),
    "Wasserstein-2": ({"divergence": "wasserstein-2"}, 0, (100.0, 1000.0)),
    "two moments, longer ERM phase": ({}, 200, (2500.0, 10000.0)),
    "kernel, longer ERM phase": ({"divergence": "mmd"}, 200, (300.0, 1000.0)),
}
"""Other settings of RDM: what differs from two moments, further steps of ERM, and values of λ."""


def plan() -> list[PlannedRun]:
    """Runs of the other settings, from ERM on seed 0."""
    (base, *_) = grid_runs("paper", ["rdm"], [0], ["erm"])
    runs = []
    for label, (changes, longer, weights) in SETTINGS.items():
        for weight in weights:
            config = replace(
                base.config,
                hparams={**base.config.hparams, **changes, "weight": weight},
                pretrain=PRETRAIN + longer,
                steps=base.config.steps + longer,
            )
            runs.append(PlannedRun(config, f"RDM, {label}, λ = {weight:g}, seed 0"))
    return runs


def evaluations() -> pd.DataFrame:
    """Evaluations of runs from ERM once the method acts: risks, their gap, accuracies by p."""
    others = [OTHERS] if any(OTHERS.glob("runs/*/records.jsonl")) else []
    frame = results(FOLDER, *others)
    runs = {
        run.config.id: (run.method, f"{METHODS[run.method].label} {run.value:g}")
        for run in grid_runs("paper", seeds=[0, 1, 2], inits=["erm"])
    }
    runs |= {run.config.id: ("other", run.title) for run in plan()}
    frame = frame[frame["run"].isin(runs) & (frame["step"] > frame["pretrain"])]
    low, high = (frame[f"risk/val/{p:g}"] for p in TRAINING)
    domains = [f"accuracy/train/{domain_name(p, TRAINING)}" for p in TEST_P]
    accuracies = (100 * frame[domains]).set_axis(list(TEST_P), axis="columns")
    own = frame["run"].map(runs)
    return accuracies.assign(
        method=own.str[0],
        setting=own.str[1],
        seed=frame["seed"],
        step=frame["step"],
        risk=(low + high) / 2,
        gap=(high - low).abs(),
        worst=accuracies.min(axis="columns"),
    )


def table() -> Table:
    """What the rule chooses with every tolerance."""
    frame, rows = evaluations(), list[tuple[Cell, ...]]()
    for family, methods in FAMILIES.items():
        own = frame[frame["method"].isin(methods)]
        for tolerance in TOLERANCES:
            near = own[own["gap"] <= tolerance]
            chosen = near.sort_values(["seed", "risk"]).drop_duplicates("seed")
            picked = "; ".join(
                f"{setting} at {step}"
                for setting, step in zip(chosen["setting"], chosen["step"], strict=True)
            )
            spreads = (Spread(tuple(chosen[column])) for column in ("worst", 0.0, 0.9))
            rows.append((f"{family}, {tolerance:g}", *spreads, picked))
    return Table(
        "ColoredMNIST, from ERM: the step of lowest validation risk among those at which the mean "
        "risks of the two training domains differ by at most the tolerance, over all runs of a "
        "seed. Accuracy on MNIST's test digits in per cent, mean ± standard deviation over seeds "
        "0, 1 and 2. Chosen: method, λ and step, by seed.",
        ("method and tolerance", "worst p", "p = 0", "p = 0.9", "chosen"),
        tuple(rows),
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["plan"]:
        extend(OTHERS, plan(), "python benchmarks/flatness.py plan")
        raise SystemExit
    text = table().markdown()
    (FOLDER / "flat.md").write_text(f"{text}\n\nWritten by `python benchmarks/flatness.py`.\n")
    print(text)
