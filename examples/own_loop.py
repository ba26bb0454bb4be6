"""The criterion in a plain training loop.

Two sites label the same kind of samples. A measurement ("cause") gives the label with 25 % noise
at both. A second one ("shortcut") agrees with the label for 95 % of the samples of one site and
for 75 % at the other; at a new site it agrees for 10 %. ERM weighs the shortcut most. From step
100 on, RDM adds the distance between the risk distributions of the worse site and of both: the
shortcut makes them differ, so its weight falls, and the cause remains.

Run: python examples/own_loop.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from riskmatch import RiskMatching

WARMUP, STEPS = 100, 600


def site(agreement: float, seed: int, samples: int = 4000) -> tuple[Tensor, Tensor]:
    """Inputs (n, 2), the columns cause and shortcut, and labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (samples,), generator=generator).float()
    right = torch.rand(samples, 2, generator=generator) < torch.tensor([0.75, agreement])
    x = torch.where(right, y[:, None], 1 - y[:, None]) * 2 - 1
    return x + 0.3 * torch.randn(samples, 2, generator=generator), y


def fit(weight: float) -> tuple[list[list[float]], list[float]]:
    """Train; returns the weights of cause and shortcut and the accuracy at the new site by step."""
    sites = [site(0.95, seed=0), site(0.75, seed=1)]
    x, y = (torch.cat(parts) for parts in zip(*sites, strict=True))
    domain = torch.arange(2).repeat_interleave(4000)
    new_x, new_y = site(0.1, seed=2)
    model = torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    matching = RiskMatching(weight=weight)
    erm = RiskMatching(weight=0.0)  # the mean of the domain risks
    weights, accuracies = [], []
    for step in range(STEPS):
        risks = binary_cross_entropy_with_logits(model(x)[:, 0], y, reduction="none")  # (n,)
        loss = (erm if step < WARMUP else matching)(risks, domain).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights.append(model.weight[0].tolist())
        accuracies.append(float(((model(new_x)[:, 0] > 0) == (new_y > 0)).float().mean()))
    return weights, accuracies


def main(out: str = "out/own_loop.png") -> None:
    """Train ERM and RDM and draw their weights."""
    figure, panels = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    for axes, title, weight in zip(panels, ("ERM", "RDM, λ = 20"), (0.0, 20.0), strict=False):
        weights, accuracies = fit(weight)
        axes.plot(weights, label=["cause", "shortcut"])
        axes.set(title=title, xlabel="step", ylabel="weight in the model", ylim=(-0.2, 2))
        panels[2].plot([100 * a for a in accuracies], label=title)
        print(f"{title}: {accuracies[-1]:.1%} at the new site")
    panels[2].set(title="new site", xlabel="step", ylabel="accuracy, %")
    for axes in panels:
        axes.axvline(WARMUP, color="grey", linewidth=0.6)
        axes.legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
