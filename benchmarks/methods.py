"""The cost of a step of every method, relative to ERM in the same run: `make bench`.

An MLP 392-390-390 on two domains of 5,000 samples, every penalty switched on from the first step.
RDM is shown with both matches and both divergences; Fish and MLDG step through the domains one by
one, and IGA differentiates twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import measure
import torch

from riskmatch.engine import Batch, Memory, Objective, OptimSpec, Stepper
from riskmatch.models import MLP
from riskmatch.objectives import RDM, methods

SAMPLES = 5_000


def stepping(objective: Objective) -> Callable[[], object]:
    """One step of ``objective`` after another, on a batch that stays."""
    torch.manual_seed(0)
    inputs = torch.rand(2 * SAMPLES, 392)
    labels = torch.randint(2, (2 * SAMPLES,))
    batch = Batch(inputs, labels, (SAMPLES, SAMPLES))
    optim = OptimSpec("adam", lr=1e-4)
    stepper = Stepper(MLP(392, 2, widths=(390, 390)), objective, Memory(base=optim))
    return lambda: stepper.step(batch)


def variants() -> dict[str, Objective]:
    """Every method with its penalty on, and the forms of RDM."""
    found: dict[str, Objective] = {}
    for name, method in methods().items():
        if method is not RDM:
            warms_up = any(item.name == "warmup" for item in dataclasses.fields(method))
            found[name] = method(warmup=0) if warms_up else method()
    for match in ("worst", "variance"):
        for divergence in ("mmd", "moments"):
            name = f"rdm, {match}, {divergence}"
            found[name] = RDM(warmup=0, match=match, divergence=divergence, variance_weight=0.0)
    return found


def main() -> None:
    actions = {name: stepping(objective) for name, objective in variants().items()}
    print(f"{len(actions)} methods, 2 × {SAMPLES:,} samples", flush=True)
    times = measure.seconds(actions, rounds=7, turn=0.3)
    ratios = {name: time / times["erm"] for name, time in times.items()}
    ranked = sorted(ratios, key=ratios.__getitem__)
    rows = [[name, f"{times[name] * 1e3:.1f}", f"{ratios[name]:.2f}"] for name in ranked]
    record = {
        "machine": measure.machine(),
        "network": "MLP 392-390-390-2",
        "samples": [SAMPLES, SAMPLES],
        "seconds": times,
        "relative_to_erm": ratios,
    }
    measure.save("methods", record, measure.table(["method", "ms per step", "ERM = 1"], rows))


if __name__ == "__main__":
    main()
