"""The linear-time MMD: its error and its time against the number of risks.

Risks are scalars, so that the sum over all pairs of risks needs no matrix of pairs. ``mmd2``
takes the linear-time form by itself; ``method="dense"`` asks for the sum over all pairs, in
float64 the exact value. Drawn are the relative errors of value and gradient in float32 and
float64 and the time of forward and backward pass on one thread.

Run: python examples/linear_time.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from riskmatch import mmd2

SIZES = (200, 500, 1000, 2000, 5000)
MORE = (10_000, 20_000, 50_000, 100_000, 200_000, 500_000)  # for the linear-time form alone


def risks(samples: int) -> tuple[Tensor, Tensor]:
    """Risks of two domains: exponentially distributed, one with a heavier tail."""
    generator = torch.Generator().manual_seed(samples)
    x = torch.empty(samples // 2).exponential_(2.0, generator=generator)
    y = torch.empty(samples - samples // 2).exponential_(1.0, generator=generator)
    return x, y


def evaluate(x: Tensor, y: Tensor, method: str, repeats: int = 1) -> tuple[float, Tensor, float]:
    """MMD², its gradient with respect to x, and the shortest processor time in seconds."""
    times = []
    for _ in range(repeats):
        x = x.detach().requires_grad_()
        start = process_time()
        value = mmd2(x, y, method=method)
        value.backward()
        times.append(process_time() - start)
    assert x.grad is not None
    return float(value.detach()), x.grad.double(), min(times)


def main(out: str = "out/linear_time.png") -> None:
    """Compare the linear-time form with all pairs."""
    torch.set_num_threads(1)
    errors: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {"all pairs": [], "linear time": []}
    for samples in SIZES:
        x, y = (part.double() for part in risks(samples))
        exact, exact_gradient, seconds = evaluate(x, y, "dense")
        times["all pairs"].append(1000 * seconds)
        for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
            value, gradient, _ = evaluate(x.to(dtype), y.to(dtype), "grid")
            difference = float((gradient - exact_gradient).norm() / exact_gradient.norm())
            errors.setdefault(f"value, {name}", []).append(max(abs(value / exact - 1), 1e-16))
            errors.setdefault(f"gradient, {name}", []).append(difference)
    for samples in SIZES + MORE:
        times["linear time"].append(1000 * evaluate(*risks(samples), "grid", repeats=5)[2])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for name, values in errors.items():
        left.loglog(SIZES, values, ".-", label=name)
    for name, values in times.items():
        right.loglog((SIZES + MORE)[: len(values)], values, ".-", label=name)
    left.set(title="error", xlabel="risks", ylabel="relative error")
    left.set(xlim=right.get_xlim(), ylim=(1e-17, 1))
    right.set(title="forward and backward", xlabel="risks", ylabel="milliseconds of processor time")
    for axes in (left, right):
        axes.legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
