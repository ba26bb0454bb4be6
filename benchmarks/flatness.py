"""Selection without the test domain on ColoredMNIST: is there a flat model among the runs?

`python benchmarks/flatness.py` reads the runs of Table 1 in results/colored-mnist and writes
flat.md there. The rule uses the validation digits of the training domains p = 0.1 and 0.2 alone:
of all steps after the ERM phase at which their mean risks differ by at most a tolerance, the one
with the lowest mean risk, over all runs of a seed.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from riskmatch import results
from riskmatch.experiments.colored_mnist import METHODS, PRETRAIN, TEST_P, domain_name, grid_runs
from riskmatch.report.tables import Cell, Spread, Table

FOLDER = Path(__file__).resolve().parent.parent / "results" / "colored-mnist"
TRAINING = (0.1, 0.2)
FAMILIES = {"RDM": ("rdm", "rdm-mmd"), "VREx": ("vrex",)}
TOLERANCES = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03)


def evaluations() -> pd.DataFrame:
    """Evaluations of runs from ERM once the method acts: risks, their gap, accuracies by p."""
    frame = results(FOLDER)
    runs = {run.config.id: run for run in grid_runs("paper", seeds=[0, 1, 2], inits=["erm"])}
    frame = frame[frame["run"].isin(runs) & (frame["step"] > PRETRAIN)]
    low, high = (frame[f"risk/val/{p:g}"] for p in TRAINING)
    domains = [f"accuracy/train/{domain_name(p, TRAINING)}" for p in TEST_P]
    accuracies = (100 * frame[domains]).set_axis(list(TEST_P), axis="columns")
    own = frame["run"].map(runs)
    return accuracies.assign(
        method=own.map(lambda run: run.method),
        setting=own.map(lambda run: METHODS[run.method].label + f" {run.value:g}"),
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
    text = table().markdown()
    (FOLDER / "flat.md").write_text(f"{text}\n\nWritten by `python benchmarks/flatness.py`.\n")
    print(text)
