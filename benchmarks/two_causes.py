"""Shortcut × unequal noise, and λ without the test domain: `python benchmarks/two_causes.py`.

The plan, its hypotheses and its analysis are in results/two-causes/README.md, written before the
first run. The command writes a record for each cell and seed there, then the tables and the figure;
a second call trains only what is missing.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from operator import sub
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from riskmatch import fit
from riskmatch.contract import Objective, OptimSpec
from riskmatch.data import Batch
from riskmatch.data.colored_digits import colored, grey_digits
from riskmatch.data.sampler import stream
from riskmatch.models.mlp import MLP
from riskmatch.objectives import ERM, RDM, VREx
from riskmatch.report.tables import Cell, Gain, Spread, Table

RESULTS = Path(__file__).resolve().parent.parent / "results" / "two-causes"
SEEDS = range(10)
SAMPLES, VALIDATION = 1000, 500
"""Training and validation samples per domain."""
TESTS = ("0.1", "0.5", "0.9")
"""Agreement of colour and label in the test domains, which share their digits."""
SHORTCUT = {False: (0.5, 0.5), True: (0.9, 0.8)}
"""Agreement of colour and label in the training domains."""
NOISE = {False: (0.25, 0.25), True: (0.05, 0.45)}
"""Label noise of the training domains; that of the test domains is 0.25."""
THREE = {"shortcut": (0.9, 0.8, 0.7), "noise": (0.05, 0.25, 0.45)}
"""Agreement and noise of three training domains, where λ is chosen."""
WEIGHTS = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
STEPS = 150, 200
"""Steps of ERM, and of each method after them."""
LR, LR_AFTER = 1e-3, 5e-4
TOLERANCE = 2.0
"""Risks count as equal within this many standard errors of their difference."""
CELLS = {
    "neither": (False, False),
    "shortcut": (True, False),
    "unequal noise": (False, True),
    "both": (True, True),
}
"""Shortcut and unequal noise of each cell."""
Samples = tuple[torch.Tensor, torch.Tensor]


def rdm(weight: float, divergence: str = "moments") -> RDM:
    """RDM after the ERM phase, divided by λ as in the released code on ColoredMNIST."""
    options = {"warmup": 0, "lr_after": LR_AFTER, "variance_weight": 0.0}
    return RDM(weight, divergence=divergence, rescale=True, **options)


METHODS: dict[str, Objective] = {
    "ERM with the switch": ERM(),
    "VREx, λ = 10,000": VREx(1e4, warmup=0),
    "RDM, λ = 30": rdm(30.0),
    "RDM, λ = 1,000": rdm(1000.0),
    "RDM, kernel, λ = 300": rdm(300.0, "mmd"),
}
"""Methods that continue the ERM phase with a fresh Adam; ERM itself goes on without the switch."""


def domains(
    agreement: Sequence[float], noise: Sequence[float], seed: int
) -> dict[str, list[Samples]]:
    """Training and validation samples of the training domains, and those of the test domains.

    No digit is in two of the sets: training and validation digits of every domain, test digits.
    """
    images, digits = grey_digits()
    order = torch.randperm(len(images), generator=stream("two-causes", seed))
    parts = 2 * len(agreement) + 1
    made: dict[str, list[Samples]] = {"train": [], "val": [], "test": []}

    def draw(part: int, samples: int, agrees: float, flipped: float, *key: str) -> Samples:
        rows, generator = order[part::parts], stream("two-causes", seed, *key)
        domain = colored(repr(agrees), images[rows], digits[rows], samples, generator, flipped)
        return domain.x, domain.y

    for k, (agrees, flipped) in enumerate(zip(agreement, noise, strict=True)):
        made["train"].append(draw(2 * k, SAMPLES, agrees, flipped, "train", str(k)))
        made["val"].append(draw(2 * k + 1, VALIDATION, agrees, flipped, "val", str(k)))
    for agrees in TESTS:
        made["test"].append(draw(parts - 1, SAMPLES, float(agrees), 0.25, "test"))
    return made


def trained(
    parts: Sequence[Samples], methods: Mapping[str, Objective], seed: int, erm: bool = False
) -> dict[str, torch.nn.Module]:
    """Networks by method, all from one ERM phase; with ``erm`` also ERM without the switch."""
    x, y = (torch.cat(part) for part in zip(*parts, strict=True))
    batch = Batch(x, y, (SAMPLES,) * len(parts))

    def run(model: torch.nn.Module, method: Objective, steps: int, lr: float) -> torch.nn.Module:
        torch.manual_seed(seed)
        fit(model, method, [batch] * steps, OptimSpec("adam", lr, 0.0))
        return model.eval()

    def start() -> torch.nn.Module:
        torch.manual_seed(seed)
        return MLP(x[0].shape, 2, 0.2, widths=(64, 64), init="xavier", single_logit=True)

    first = run(start(), ERM(), STEPS[0], LR)
    found = {
        name: run(copy.deepcopy(first).train(), method, STEPS[1], LR_AFTER)
        for name, method in methods.items()
    }
    return {"ERM": run(start(), ERM(), sum(STEPS), LR), **found} if erm else found


def scores(model: torch.nn.Module, parts: Iterable[Samples]) -> dict[str, list[float]]:
    """Accuracy, mean risk and its variance over samples, by domain."""
    made: dict[str, list[float]] = {"accuracy": [], "risk": [], "variance": []}
    with torch.no_grad():
        for x, y in parts:
            z = model(x)[1]
            risk = functional.cross_entropy(z, y, reduction="none")
            values = ((z.argmax(1) == y).float().mean(), risk.mean(), risk.var())
            for name, value in zip(made, values, strict=True):
                made[name].append(round(float(value), 4))
    return made


def cell(point: tuple[str, int]) -> dict[str, Any]:
    """All methods in a cell of the 2 × 2 with two training domains."""
    name, seed = point
    torch.set_num_threads(1)
    shortcut, noisy = CELLS[name]
    made = domains(SHORTCUT[shortcut], NOISE[noisy], seed)
    found = trained(made["train"], METHODS, seed, erm=True)
    return {
        "study": "cells",
        "cell": name,
        "seed": seed,
        "methods": {title: scores(model, made["test"]) for title, model in found.items()},
    }


def path(point: tuple[str, int]) -> dict[str, Any]:
    """RDM with every λ in a cell with three training domains, and with each of these left out."""
    name, seed = point
    torch.set_num_threads(1)
    shortcut, noisy = CELLS[name]
    made = domains(
        THREE["shortcut"] if shortcut else (0.5,) * 3,
        THREE["noise"] if noisy else (0.25,) * 3,
        seed,
    )
    methods: dict[str, Objective] = {"0": ERM(), **{f"{w:g}": rdm(w) for w in WEIGHTS}}
    whole = trained(made["train"], methods, seed)
    record: dict[str, dict[str, Any]] = {
        weight: {part: scores(model, made[part]) for part in ("val", "test")}
        for weight, model in whole.items()
    }
    for out in range(3):
        kept = [part for k, part in enumerate(made["train"]) if k != out]
        for weight, model in trained(kept, methods, seed).items():
            left = scores(model, [made["val"][out]])["accuracy"]
            record[weight]["left_out"] = [*record[weight].get("left_out", []), *left]
    return {"study": "paths", "cell": name, "seed": seed, "weights": record}


def chosen(weights: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The λ that each rule picks; ties go to the smallest."""

    def unequal(one: Mapping[str, Any]) -> float:
        """The largest difference of mean validation risks, in standard errors."""
        risks, variances = one["val"]["risk"], one["val"]["variance"]
        return max(
            abs(a - b) / max(np.sqrt((v + w) / VALIDATION), 1e-12)
            for (a, v), (b, w) in product(zip(risks, variances, strict=True), repeat=2)
        )

    def first(score: Mapping[str, float]) -> str:
        return max(score, key=lambda weight: (score[weight], -float(weight)))

    equal = {
        w: -np.mean(one["val"]["risk"]) for w, one in weights.items() if unequal(one) <= TOLERANCE
    }
    return {
        "ERM with the switch": "0",
        "train-val": first({w: np.mean(one["val"]["accuracy"]) for w, one in weights.items()}),
        "leave-one-out": first({w: np.mean(one["left_out"]) for w, one in weights.items()}),
        "equal risks": first(equal) if equal else "0",
        "best at 0.1 (oracle)": first(
            {w: one["test"]["accuracy"][0] for w, one in weights.items()}
        ),
    }


def read() -> list[dict[str, Any]]:
    """The records there are."""
    file = RESULTS / "records.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def shown(
    accuracies: Mapping[str, list[tuple[float, ...]]], control: str
) -> list[tuple[Cell, ...]]:
    """Rows of accuracy at every test agreement and the worst, and of gains over the control.

    ``accuracies`` has, by name, a tuple over seeds for each column.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, columns in accuracies.items():
        rows.append((name, *map(Spread, columns)))
        if name != control:
            pairs = zip(columns, accuracies[control], strict=True)
            rows.append((f"{name}: gain", *(Gain(tuple(map(sub, *pair))) for pair in pairs)))
    return rows


def columns_of(accuracies: Iterable[Sequence[float]]) -> list[tuple[float, ...]]:
    """Per cent at every test agreement, and the lowest, over seeds."""
    rows = [(*(100 * value for value in one), 100 * min(one)) for one in accuracies]
    return list(zip(*rows, strict=True))


def tables(records: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table for each study and cell."""
    made = []
    head = ("", *(f"test agreement {one}" for one in TESTS), "worst of them")
    for name in CELLS:
        own = sorted(
            (r for r in records if r["cell"] == name and r["study"] == "cells"),
            key=lambda r: r["seed"],
        )
        if own:
            by_method = {
                title: columns_of(r["methods"][title]["accuracy"] for r in own)
                for title in own[0]["methods"]
            }
            caption = f"Two training domains, {name}: accuracy, %, over {len(own)} seeds."
            made.append(Table(caption, head, tuple(shown(by_method, "ERM with the switch"))))
    for name in CELLS:
        own = sorted(
            (r for r in records if r["cell"] == name and r["study"] == "paths"),
            key=lambda r: r["seed"],
        )
        if own:
            picks = [chosen(r["weights"]) for r in own]
            by_rule = {
                rule: columns_of(
                    r["weights"][pick[rule]]["test"]["accuracy"]
                    for r, pick in zip(own, picks, strict=True)
                )
                for rule in picks[0]
            }
            rows = shown(by_rule, "ERM with the switch")
            listed = {rule: ", ".join(pick[rule] for pick in picks) for rule in by_rule}
            caption = (
                f"Three training domains, {name}: accuracy, %, of the λ that a rule picks, over "
                f"{len(own)} seeds."
            )
            full = tuple((*row, listed.get(str(row[0]))) for row in rows)
            made.append(Table(caption, (*head, "λ by seed"), full))
    return made


def main(part: str = "all") -> None:
    studies = {"cells": cell, "paths": path}
    records = read()
    done = {(r["study"], r["cell"], r["seed"]) for r in records}
    with ProcessPoolExecutor(os.cpu_count()) as pool, (RESULTS / "records.jsonl").open("a") as file:
        for study, run in studies.items():
            points = [
                (name, seed)
                for seed, name in product(SEEDS, CELLS)
                if (study, name, seed) not in done and part in ("all", study)
            ]
            for made in pool.map(run, points):
                file.write(json.dumps(made, ensure_ascii=False) + "\n")
                file.flush()
    text = "\n\n".join(table.markdown() for table in tables(read()))
    note = (
        "Mean ± standard deviation over seeds. Gain: over ERM with the switch, paired over seeds, "
        "± half of its 95 % t-interval; unit: these domains, seeds vary."
    )
    (RESULTS / "two_causes.md").write_text(f"{note}\n\n{text}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
