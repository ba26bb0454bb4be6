"""The cost of a step of every method, relative to ERM in the same run: `make bench`.

An MLP 392-390-390 on two domains of 5,000 samples, every penalty switched on from the first step.
RDM is shown with both matches and both divergences; Fish and MLDG step through the domains one by
one, IGA differentiates twice, and CAD, CondCAD and ADRMX compare all pairs of samples. Where steps
train a discriminator and the network in turn, a step is the mean of a whole cycle.

Then a small step, where calls cost more than arithmetic: a head on 1,280 frozen features,
7 classes, 3 × 32 samples, one thread, beside a plain loop of torch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import core
import measure
import torch

import riskmatch
from riskmatch.contract import Memory, Objective, OptimSpec
from riskmatch.data import Batch
from riskmatch.defaults.describe import STEP_COSTS
from riskmatch.divergence import MMD, DomainIndex, numpy_forms
from riskmatch.engine import Stepper
from riskmatch.models import MLP, build
from riskmatch.objectives import RDM, methods

SAMPLES = 5_000
SMALL = (96, 264)
"""Sizes of small batches of risks."""


def stepping(objective: Objective) -> Callable[[], object]:
    """One cycle of steps of ``objective`` after another, on a batch that stays."""
    torch.manual_seed(0)
    inputs = torch.rand(2 * SAMPLES, 392)
    labels = torch.randint(2, (2 * SAMPLES,))
    batch = Batch(inputs, labels, (SAMPLES, SAMPLES))
    optim = OptimSpec("adam", lr=1e-4)
    stepper = Stepper(MLP((392,), 2, widths=(390, 390)), objective, Memory(base=optim))
    return lambda: [stepper.step(batch) for _ in range(cycle(objective))]


def cycle(objective: Objective) -> int:
    """The number of steps after which a method does the same again."""
    return 1 + getattr(objective, "critic_steps", 0)


def variants() -> dict[str, Objective]:
    """Every method with its penalty on, and the forms of RDM."""
    found: dict[str, Objective] = {}
    for name, method in methods().items():
        if method is not RDM:
            fields = {item.name for item in dataclasses.fields(method)}
            found[name] = method(**dict.fromkeys(fields & {"warmup", "variance_warmup"}, 0))
    for match in ("worst", "variance"):
        for divergence in ("mmd", "moments"):
            name = f"rdm, {match}, {divergence}"
            found[name] = RDM(warmup=0, match=match, divergence=divergence, variance_weight=0.0)
    return found


def small_steps() -> dict[str, Callable[[], object]]:
    """A step of a plain loop, of ERM and of RDM on the same head and batch."""
    torch.manual_seed(0)
    inputs, labels = torch.rand(96, 1280), torch.randint(7, (96,))
    batch, optim = Batch(inputs, labels, (32, 32, 32)), OptimSpec("adam", lr=1e-3)
    head = torch.nn.Linear(1280, 7)
    adam = torch.optim.Adam(head.parameters(), lr=1e-3)

    def plain() -> None:
        adam.zero_grad()
        torch.nn.functional.cross_entropy(head(inputs), labels).backward()
        adam.step()

    actions: dict[str, Callable[[], object]] = {"plain torch": plain}
    matches = {f"rdm, {match}": RDM(warmup=0, match=match) for match in ("worst", "variance")}
    for name, objective in {"erm": methods()["erm"](), **matches}.items():
        stepper = Stepper(build("linear", (1280,), 7), objective, Memory(base=optim))
        actions[name] = partial(stepper.step, batch)
    return actions


def penalties() -> dict[str, Callable[[], object]]:
    """The penalty of the risks of a small step, its arithmetic alone, and the dense form."""
    actions: dict[str, Callable[[], object]] = {}
    for n in SMALL:
        risks, labels = core.risks_of(n, 3)
        groups, worst = DomainIndex.of(labels), labels == 2
        ours = partial(riskmatch.risk_matching_penalty, risks, groups)
        actions[f"penalty, {n}"] = core.both_ways(ours, risks)
        rows = groups.contrasts([2], "domains").numpy()
        arrays = risks.detach().double().numpy(), groups.index.numpy(), rows
        actions[f"arithmetic, {n}"] = partial(
            numpy_forms.evaluate, *arrays, MMD().kernel, risks.dtype
        )
        usual = partial(lambda risks, worst: core.dense(risks[worst], risks), risks, worst)
        actions[f"dense, {n}"] = core.both_ways(usual, risks)
    return actions


def measure_small_steps() -> tuple[dict[str, float], str]:
    """Seconds by action, and their table."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps = small_steps()
    times = measure.seconds({**steps, **penalties()}, rounds=15, turn=0.2)
    torch.set_num_threads(threads)
    rows = [
        [
            name,
            f"{time * 1e3:.2f}",
            f"{time / times['plain torch']:.2f}",
            f"{time / times['erm']:.2f}",
        ]
        for name, time in times.items()
        if name in steps
    ]
    headings = ["head on frozen features", "ms per step", "plain torch = 1", "ERM = 1"]
    compared = [
        [
            f"{n}",
            f"{times[f'penalty, {n}'] * 1e6:.0f}",
            f"{times[f'arithmetic, {n}'] * 1e6:.0f}",
            f"{times[f'dense, {n}'] * 1e6:,.0f}",
            f"{times[f'dense, {n}'] / times[f'penalty, {n}']:.2f}",
        ]
        for n in SMALL
    ]
    head = ["risks", "penalty, µs", "of which arithmetic, µs", "dense, µs", "dense / penalty"]
    text = (
        "\nThe penalty of three domains with its gradient. Besides arithmetic, in NumPy, the time "
        f"goes to checks, calls of torch and autograd.\n\n{measure.table(head, compared)}"
    )
    return times, measure.table(headings, rows) + text


def packaged(record: Mapping[str, Any]) -> dict[str, Any]:
    """What ``riskmatch methods NAME`` shows of the record, of RDM with its defaults."""
    ratios = {name: round(ratio, 2) for name, ratio in record["relative_to_erm"].items()}
    ratios["rdm"] = ratios["rdm, worst, mmd"]
    samples, threads = record["samples"], record["machine"]["threads"]
    on = f"{record['network']}, {len(samples)} × {samples[0]:,} samples, threads: {threads}"
    known = {name: ratios[name] for name in sorted(ratios) if "," not in name}
    return {"measured_on": on, "relative_to_erm": known}


def packaged_file() -> Path:
    """The file of the package with it."""
    return Path(riskmatch.__path__[0]) / "defaults" / STEP_COSTS


def main() -> None:
    small, small_table = measure_small_steps()
    objectives = variants()
    actions = {name: stepping(objective) for name, objective in objectives.items()}
    print(f"{len(actions)} methods, 2 × {SAMPLES:,} samples", flush=True)
    cycles = measure.seconds(actions, rounds=12, turn=0.3)
    times = {name: time / cycle(objectives[name]) for name, time in cycles.items()}
    ratios = {name: time / times["erm"] for name, time in times.items()}
    ranked = sorted(ratios, key=ratios.__getitem__)
    rows = [[name, f"{times[name] * 1e3:.1f}", f"{ratios[name]:.2f}"] for name in ranked]
    record = {
        "machine": measure.machine(),
        "network": "MLP 392-390-390-2",
        "samples": [SAMPLES, SAMPLES],
        "seconds": times,
        "relative_to_erm": ratios,
        "small_step_seconds": small,
    }
    table = measure.table(["method", "ms per step", "ERM = 1"], rows)
    measure.save("methods", record, f"{table}\n\n{small_table}")
    text = json.dumps(packaged(record), indent=2, ensure_ascii=False)
    packaged_file().write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
