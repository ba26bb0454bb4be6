"""From a shortcut to a difference in difficulty: where matching risks stops helping.

`python benchmarks/difficulty.py` trains ERM, VREx and RDM on coloured digits with two training
domains and writes results/difficulty/: a record for each point and seed, the table and the figure.
A second call trains only what is missing. All of it takes three minutes on two cores.

A share d, from 0 to 1, moves the data from one regime to the other:

    d = 0   the label noise is 25 % in every domain, and the colour agrees with the label for 90 %
            and 80 % of the training samples and for 10 % of the test samples: ColoredMNIST
    d = 1   the colour says nothing, and the label noise is 5 % in one training domain and 45 % in
            the other

In between, agreement and noise are interpolated. The test domain has 25 % label noise throughout,
so that the shape of the digit gives 75 % at every d. All methods continue the same 150 steps of ERM
with a fresh Adam at the same learning rate; λ is fixed, and nothing is selected.
"""

from __future__ import annotations

import copy
import json
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from riskmatch import fit
from riskmatch.contract import Objective, OptimSpec
from riskmatch.data import Batch
from riskmatch.data.colored_digits import colored, grey_digits
from riskmatch.data.sampler import stream
from riskmatch.models.mlp import MLP
from riskmatch.objectives import ERM, RDM, VREx
from riskmatch.report.figures import Curve, Lines
from riskmatch.report.style import BLUE, DASHED, GREY, VERMILION, LineStyle
from riskmatch.report.tables import Cell, Gain, Spread, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).resolve().parent.parent / "results" / "difficulty"
FILE = "difficulty.jsonl"
DIFFICULTY = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SEEDS = range(10)
SAMPLES = 1000
"""Samples per domain."""
AGREEMENT = (0.9, 0.8, 0.1)
"""Agreement of colour and label at d = 0, in the training domains and the test domain."""
NOISE = (0.05, 0.45, 0.25)
"""Label noise at d = 1, in the same order."""
STEPS = 150, 200
"""Steps of ERM, and of each method after them."""


def methods() -> dict[str, tuple[Objective, LineStyle]]:
    """The methods after the ERM phase, and their lines in the figure."""

    def rdm(weight: float) -> RDM:
        # Two moments and the division by λ, as in the released code on ColoredMNIST.
        options = {"warmup": 0, "lr_after": 5e-4, "variance_weight": 0.0}
        return RDM(weight, divergence="moments", rescale=True, **options)

    return {
        "ERM": (ERM(), LineStyle(GREY, width=2.4)),
        "VREx, λ = 10,000": (VREx(1e4, warmup=0), LineStyle(BLUE)),
        "RDM, λ = 1,000": (rdm(1000.0), LineStyle(VERMILION, width=2.4)),
        "RDM, λ = 30": (rdm(30.0), LineStyle(VERMILION, DASHED)),
    }


def train(point: tuple[float, int]) -> dict[str, Any]:
    """Train every method at a difficulty with a seed; return accuracy and risk on the domains."""
    difficulty, seed = point
    torch.set_num_threads(1)
    images, digits = grey_digits()
    order = torch.randperm(len(images), generator=stream("difficulty", seed))
    domains = []
    for k, (agreement, noise) in enumerate(zip(AGREEMENT, NOISE, strict=True)):
        rows = order[k :: len(NOISE)]  # no digit is in two domains
        made = colored(
            repr(0.5 + (1 - difficulty) * (agreement - 0.5)),
            images[rows],
            digits[rows],
            SAMPLES,
            stream("difficulty", seed, str(k)),
            0.25 + difficulty * (noise - 0.25),
        )
        domains.append((made.x, made.y))
    x, y = (torch.cat(parts) for parts in zip(*domains[:2], strict=True))
    batch = Batch(x, y, (SAMPLES, SAMPLES))
    torch.manual_seed(seed)
    start = MLP(x[0].shape, 2, 0.2, widths=(64, 64), init="xavier", single_logit=True)
    fit(start, ERM(), [batch] * STEPS[0], OptimSpec("adam", 1e-3, 0.0))
    found = {}
    for name, (method, _) in methods().items():
        torch.manual_seed(seed)
        model = copy.deepcopy(start)
        fit(model, method, [batch] * STEPS[1], OptimSpec("adam", 5e-4, 0.0))
        model.eval()
        with torch.no_grad():
            logits = [(model(x)[1], y) for x, y in domains]
        found[name] = {
            "accuracy": [round(float((z.argmax(1) == y).float().mean()), 4) for z, y in logits],
            "risk": [round(float(functional.cross_entropy(z, y)), 4) for z, y in logits],
        }
    return {"difficulty": difficulty, "seed": seed, "methods": found}


Records = dict[tuple[float, int], dict[str, Any]]
"""Records by difficulty and seed."""


def main() -> None:
    """Train what is missing, and write table and figure."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    records = read()
    points = [(d, seed) for seed, d in product(SEEDS, DIFFICULTY) if (d, seed) not in records]
    with ProcessPoolExecutor(os.cpu_count()) as pool, (RESULTS / FILE).open("a") as file:
        for made in pool.map(train, points):
            file.write(json.dumps(made, ensure_ascii=False) + "\n")
            file.flush()
    records = read()
    (RESULTS / "difficulty.md").write_text(table(records).markdown() + "\n")
    figure(records).savefig(RESULTS / "difficulty.png")


def read() -> Records:
    """Read the records there are."""
    path = RESULTS / FILE
    lines = path.read_text().splitlines() if path.exists() else []
    return {(made["difficulty"], made["seed"]): made for made in map(json.loads, lines)}


def values(records: Records, name: str, what: str, difficulty: float) -> tuple[float, ...]:
    """Accuracy in per cent, or risk, of a method on the test domain, by seed."""
    own = (records[difficulty, seed]["methods"][name] for seed in SEEDS)
    return tuple((100 if what == "accuracy" else 1) * one[what][-1] for one in own)


def table(records: Records) -> Table:
    """Accuracy on the test domain, and gains over ERM."""
    rows: list[tuple[Cell, ...]] = []
    for name in methods():
        accuracies = [values(records, name, "accuracy", d) for d in DIFFICULTY]
        rows.append((name, *map(Spread, accuracies)))
        if name != "ERM":
            erm = (values(records, "ERM", "accuracy", d) for d in DIFFICULTY)
            gains = (
                Gain.of([tuple(map(sub, *pair))]) for pair in zip(accuracies, erm, strict=True)
            )
            rows.append((f"{name}: gain over ERM", *gains))
    return Table(
        "Coloured digits: accuracy on the test domain in per cent, mean ± standard deviation over "
        f"{len(SEEDS)} seeds, by the share d from a shortcut (0) to a difference in difficulty "
        "(1). Gain over ERM: paired over seeds, ± half of its 95 % t-interval; "
        "unit: this one test domain, of which seeds are drawn. The shape of the "
        "digit gives 75 % at every d.",
        ("method", *(f"d = {d:g}" for d in DIFFICULTY)),
        tuple(rows),
    )


def figure(records: Records) -> Figure:
    """Accuracy and risk on the test domain against the difficulty."""

    def curve(name: str, what: str, style: LineStyle) -> Curve:
        spreads = [Spread(values(records, name, what, d)) for d in DIFFICULTY]
        means, sds = ([getattr(one, part) for one in spreads] for part in ("mean", "sd"))
        return Curve(name, DIFFICULTY, means, style, sds)

    return Lines(
        "Coloured digits, test domain: from a shortcut (0) to a difference in difficulty (1)",
        "share of the difference in difficulty",
        "",
        {
            title: [curve(name, what, style) for name, (_, style) in methods().items()]
            for what, title in (("accuracy", "accuracy, %"), ("risk", "mean risk"))
        },
        "",
        sharey=False,
    ).draw("page")


if __name__ == "__main__":
    main()
