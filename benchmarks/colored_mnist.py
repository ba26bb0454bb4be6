"""A step on ColoredMNIST at the paper's size, relative to its matrix products: `make bench`.

Two domains of 25,000 samples, an MLP 392-390-390-390-1 with dropout 0.2, RDM with two moments and
with the full kernel, beside ERM and the plain torch loop. The matrix products alone are those of
the forward and backward passes of the three wide layers, into memory that is there already.
"""

from __future__ import annotations

from collections.abc import Callable

import measure
import torch
from torch import nn

from riskmatch.contract import Memory, OptimSpec
from riskmatch.data import Batch
from riskmatch.device import keep_freed_memory
from riskmatch.engine import Stepper, StepSettings
from riskmatch.models import MLP
from riskmatch.objectives import ERM, RDM, Objective

SAMPLES, WIDTH, INPUTS = 25_000, 390, 392
MICRO_BATCH = 1_000


def products() -> Callable[[], None]:
    n = 2 * SAMPLES
    inputs = [torch.rand(n, size) for size in (INPUTS, WIDTH, WIDTH)]
    weights = [torch.rand(WIDTH, size) for size in (INPUTS, WIDTH, WIDTH)]
    outputs, downward = torch.empty(n, WIDTH), torch.empty(n, WIDTH)
    gradients = [torch.empty_like(weight) for weight in weights]

    def run() -> None:
        for layer in range(3):
            torch.mm(inputs[layer], weights[layer].T, out=outputs)
        for layer in range(3):
            torch.mm(outputs.T, inputs[layer], out=gradients[layer])
            if layer:
                torch.mm(outputs, weights[layer], out=downward)

    return run


def stepping(objective: Objective, batch: Batch) -> Callable[[], object]:
    network = MLP((INPUTS,), 2, 0.2, widths=(WIDTH,) * 3, init="xavier", single_logit=True)
    settings = StepSettings(micro_batch=MICRO_BATCH)
    stepper = Stepper(network, objective, Memory(base=OptimSpec(lr=1e-4)), settings)
    return lambda: stepper.step(batch)


def plain(batch: Batch) -> Callable[[], None]:
    """ERM as one would write it in torch, on tensors that are there already."""
    layers: list[nn.Module] = []
    for size in (INPUTS, WIDTH, WIDTH):
        layers += [nn.Linear(size, WIDTH), nn.Dropout(0.2), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    targets = batch.y.float()[:, None]

    def run() -> None:
        loss = nn.functional.binary_cross_entropy_with_logits(network(batch.x), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def main() -> None:
    torch.manual_seed(0)
    keep_freed_memory()
    batch = Batch(
        torch.rand(2 * SAMPLES, INPUTS), torch.randint(2, (2 * SAMPLES,)), (SAMPLES, SAMPLES)
    )
    now = {"warmup": 0, "variance_weight": 0.0}
    actions = {
        "matrix products": products(),
        "erm": stepping(ERM(), batch),
        "rdm, moments": stepping(RDM(weight=1e4, divergence="moments", rescale=True, **now), batch),
        "rdm, mmd": stepping(RDM(weight=1e3, rescale=True, **now), batch),
        "erm, plain torch": plain(batch),
    }
    print("2 × 25,000 samples: " + ", ".join(actions), flush=True)
    times = measure.medians(actions, rounds=7)
    memory = {name: measure.peak_megabytes(action) for name, action in actions.items()}
    base = times["matrix products"]
    rows = [
        [name, f"{t:.2f}", f"{t / base:.2f}", f"{memory[name]:.0f}"] for name, t in times.items()
    ]
    head = ["step", "seconds, median", "products = 1", "peak MB"]
    record = {
        "machine": measure.machine(),
        "samples": [SAMPLES, SAMPLES],
        "network": "MLP 392-390-390-390-1",
        "micro_batch": MICRO_BATCH,
        "median_seconds": times,
        "relative_to_products": {name: t / base for name, t in times.items()},
        "peak_megabytes": memory,
    }
    measure.save("colored_mnist", record, measure.table(head, rows))


if __name__ == "__main__":
    main()
