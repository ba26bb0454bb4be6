"""Time and memory of the matching penalty, forward and backward: `make bench`.

Beside riskmatch stand the dense form as it is usually written in torch, as far as its matrices fit
8 GB, GeomLoss (with KeOps) where it is installed, and one step of a network for scale.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Callable

import measure
import torch
from torch import Tensor, nn

import riskmatch

SIZES = (96, 264, 2_000, 5_000, 50_000, 500_000, 5_000_000)
DENSE_LIMIT_BYTES = 8e9
GAMMAS = [10.0**power for power in range(-4, 4)]


def risks_of(n: int, domains: int) -> tuple[Tensor, Tensor]:
    """Cross-entropy-like risks of ragged domains, the last one harder than the others."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(domains, (n,), generator=generator)
    margins = torch.randn(n, generator=generator) * 2 - 1
    risks = nn.functional.softplus(margins + 0.5 * (labels == domains - 1))
    return risks.requires_grad_(), labels


def dense(x: Tensor, y: Tensor) -> Tensor:
    """MMD² as it is usually written: pairwise squared distances, eight exponentials, autograd."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        square = (a[:, None] - b[None, :]).pow(2)
        total = torch.zeros_like(square)
        for gamma in GAMMAS:
            total = total + torch.exp(-gamma * square)
        return total

    return kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean()


def geomloss_mmd() -> Callable[[Tensor, Tensor], Tensor] | None:
    """The same MMD² by GeomLoss, one call per bandwidth, or None where it is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("geomloss", "pykeops")):
        return None
    from geomloss import SamplesLoss

    parts = [SamplesLoss("gaussian", blur=(0.5 / g) ** 0.5, backend="online") for g in GAMMAS]
    return lambda x, y: 2 * sum(part(x[:, None], y[:, None]) for part in parts)


def both_ways(loss: Callable[[], Tensor], risks: Tensor) -> Callable[[], None]:
    def run() -> None:
        risks.grad = None
        loss().backward()

    return run


def measure_size(n: int) -> dict[str, object]:
    risks, domains = risks_of(n, 3)
    worst = domains == 2
    actions = {
        "riskmatch": both_ways(lambda: riskmatch.risk_matching_penalty(risks, domains), risks)
    }
    # The pool with itself holds d², the sum, and one saved exponential and product per bandwidth.
    if n * n * 4 * (2 + 2 * len(GAMMAS)) <= DENSE_LIMIT_BYTES:
        actions["dense"] = both_ways(lambda: dense(risks[worst], risks), risks)
    if n <= 50_000 and (other := geomloss_mmd()):
        actions["geomloss"] = both_ways(lambda: other(risks[worst], risks), risks)
    print(f"n = {n:,}: {', '.join(actions)}", flush=True)
    return {
        "n": n,
        "seconds": measure.seconds(actions, rounds=4 if n in (5_000, 5_000_000) else 7),
        "peak_megabytes": {
            name: measure.peak_megabytes(action) for name, action in actions.items()
        },
    }


def measure_scale() -> dict[str, float]:
    """The penalty on 50,000 risks, worst and variance over six domains, beside a network's step."""
    print("n = 50,000: worst, variance (six domains), MLP 392-390-390-390-1", flush=True)
    risks, domains = risks_of(50_000, 6)
    sizes = (392, 390, 390, 390)
    hidden = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    network, inputs = nn.Sequential(*hidden, nn.Linear(390, 1)), torch.rand(50_000, 392)

    def penalty(match: str) -> Callable[[], Tensor]:
        return lambda: riskmatch.risk_matching_penalty(risks, domains, match=match)

    return measure.seconds(
        {
            "worst": both_ways(penalty("worst"), risks),
            "variance": both_ways(penalty("variance"), risks),
            "network": lambda: network(inputs).mean().backward(),
        }
    )


def measure_crossover() -> list[dict[str, object]]:
    """Dense against grid around the size where `method="auto"` changes over."""
    out = []
    for n in (32, 64, 96, 128, 192, 264):
        risks, domains = risks_of(n, 2)
        x, y = risks[domains == 0].detach(), risks[domains == 1].detach()
        x.requires_grad_()
        dense_way = functools.partial(riskmatch.mmd2, x, y, method="dense")
        grid_way = functools.partial(riskmatch.mmd2, x, y, method="grid")
        ways = {"dense": both_ways(dense_way, x), "grid": both_ways(grid_way, x)}
        out.append({"n": n, "seconds": measure.seconds(ways, rounds=20)})
    return out


def show(value: float | None, unit: float = 1.0) -> str:
    return (
        ""
        if value is None
        else f"{value * unit:,.3g}"
        if value * unit < 100
        else f"{value * unit:,.0f}"
    )


def main() -> None:
    crossover = measure_crossover()
    scale = measure_scale()
    sizes = [measure_size(n) for n in SIZES]
    rows = []
    for size in sizes:
        times, memory = size["seconds"], size["peak_megabytes"]
        ours, usual = times["riskmatch"], times.get("dense")
        row = {
            "n": f"{size['n']:,}",
            "riskmatch, ms": show(ours, 1e3),
            "riskmatch, MB": show(memory["riskmatch"]),
            "dense, ms": show(usual, 1e3),
            "dense, MB": show(memory.get("dense")),
            "dense / riskmatch": show(usual and usual / ours),
        }
        if geomloss_mmd():
            row["GeomLoss, ms"] = show(times.get("geomloss"), 1e3)
        rows.append(row)
    head = list(rows[0])
    text = measure.table(head, [list(row.values()) for row in rows]) + (
        f"\nAt n = 50,000 with six domains: worst {scale['worst'] * 1e3:.1f} ms, variance "
        f"{scale['variance'] / scale['worst']:.2f} times that, one step of an MLP "
        f"392-390-390-390-1 {scale['network'] / scale['worst']:.0f} times that.\n"
    )
    record = {
        "machine": measure.machine(),
        "sizes": sizes,
        "scale": {"n": 50_000, "domains": 6, "seconds": scale},
        "crossover": crossover,
    }
    measure.save("core", record, text)


if __name__ == "__main__":
    main()
