"""L and L̂ during training: is the match of the worst domain an upper bound?

Four sites with the same noise and a shortcut of different strength. One run minimises L, the mean
distance of every site's risks from the pool (``match="variance"``), one L̂, the distance of the
site with the largest mean risk (``match="worst"``). Both are drawn for both runs. L̂ exceeds L
while the worst site is also the furthest from the pool; once it resembles the pool, another one,
with smaller risks, is further away. With two sites L̂ = L.

Run: python examples/worst_or_variance.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from riskmatch import RiskMatching, risk_matching_penalty

AGREEMENT = (0.95, 0.85, 0.7, 0.5)
"""Share of samples at which the shortcut agrees with the label, by site."""
SAMPLES, WARMUP, STEPS = 500, 100, 400


def main(out: str = "out/worst_or_variance.png") -> None:
    """Train with both matches and draw L and L̂ after the warm-up."""
    generator = torch.Generator().manual_seed(0)
    domain = torch.arange(len(AGREEMENT)).repeat_interleave(SAMPLES)
    y = torch.randint(2, domain.shape, generator=generator).float()
    agreement = torch.stack([torch.full(y.shape, 0.75), torch.tensor(AGREEMENT)[domain]], dim=1)
    right = torch.rand(agreement.shape, generator=generator) < agreement
    x = torch.where(right, y[:, None], 1 - y[:, None]) * 2 - 1
    x = x + 0.3 * torch.randn(x.shape, generator=generator)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
    for axes, match, minimised in zip(panels, ("variance", "worst"), ("L", "L̂"), strict=True):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        matching = RiskMatching(weight=10.0, match=match)
        values = []
        for step in range(STEPS):
            risks = binary_cross_entropy_with_logits(model(x)[:, 0], y, reduction="none")
            matched = matching(risks, domain)
            loss = matched.risk if step < WARMUP else matched.loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            variance = float(risk_matching_penalty(risks.detach(), domain, match="variance"))
            worst = float(risk_matching_penalty(risks.detach(), domain, match="worst"))
            values.append((variance, worst))
        every, one = zip(*values[WARMUP:], strict=True)
        share = sum(b >= a for a, b in zip(every, one, strict=True)) / len(every)
        steps = range(WARMUP, STEPS)
        axes.plot(steps, every, label="L, every site")
        axes.plot(steps, one, "--", label="L̂, worst site")
        title = f"minimises {minimised}: L̂ ≥ L at {share:.0%} of the steps"
        axes.set(title=title, yscale="log", xlabel="step (the warm-up ends at 100)")
    panels[0].set_ylabel("MMD²")
    panels[0].legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
