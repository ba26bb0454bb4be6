"""When matching helps and when it hurts: the same loop on two kinds of domains.

Left, the domains share their noise and differ in a shortcut: it agrees with the label for 95 %
and 75 % of the training samples and for 10 % at the new site. Equal risks need a model without
the shortcut, which is the best one for the new site. Right, there is no shortcut, and the domains
differ in difficulty: labels are wrong for 2 %, 30 % and, at the new site, 2 % of the samples. No
model has equal risks and few errors, so that the more the risks are matched, the worse the easy
domain becomes.

Run: python examples/helps_or_hurts.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from riskmatch import RiskMatching

SITES = {  # how often cause and shortcut agree with the label: easy, hard, new site
    "domains differ in a shortcut": [(0.75, 0.95), (0.75, 0.75), (0.75, 0.1)],
    "domains differ in difficulty": [(0.98, 0.5), (0.7, 0.5), (0.98, 0.5)],
}
WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SAMPLES, WARMUP, STEPS = 1000, 100, 400


def site(rates: tuple[float, float], seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (n, 2), the columns cause and shortcut, and labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (SAMPLES,), generator=generator)
    right = torch.rand(SAMPLES, 2, generator=generator) < torch.tensor(rates)
    x = torch.where(right, y[:, None], 1 - y[:, None]) * 2.0 - 1
    return x + 0.3 * torch.randn(SAMPLES, 2, generator=generator), y


def fit(sites: list[tuple[Tensor, Tensor]], weight: float) -> list[float]:
    """Train on the first two sites; returns the accuracy at each site in per cent."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    matching = RiskMatching(weight=weight)
    x, y = (torch.cat(parts) for parts in zip(*sites[:2], strict=True))
    domain = torch.arange(2).repeat_interleave(SAMPLES)
    for step in range(STEPS):
        matched = matching(cross_entropy(model(x), y, reduction="none"), domain)
        optimizer.zero_grad()
        (matched.risk if step < WARMUP else matched.loss).backward()
        optimizer.step()
    return [100 * float((model(x).argmax(1) == y).float().mean()) for x, y in sites]


def main(out: str = "out/helps_or_hurts.png") -> None:
    """Draw the accuracy at every site against λ."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
    for axes, (title, rates) in zip(panels, SITES.items(), strict=True):
        sites = [site(pair, seed) for seed, pair in enumerate(rates)]
        rows = [fit(sites, weight) for weight in WEIGHTS]
        styles = {"first, training": ":", "second, training": "--", "new site": "o-"}
        for (label, style), values in zip(styles.items(), zip(*rows, strict=True), strict=True):
            axes.plot(values, style, label=label)
        axes.set_xticks(range(len(WEIGHTS)), [f"{weight:g}" for weight in WEIGHTS])
        axes.set(title=title, xlabel="λ (0: ERM)")
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
