"""A run of RDM, step by step: how the risk distributions come together.

Coloured digits: in two training domains the colour agrees with the label for 90 % and 80 % of the
samples, in the test domain for 10 %; the digit itself gives the label with 25 % noise everywhere.
A run stores the risks of its validation samples at every evaluation, so that its whole course can
be drawn afterwards. During the warm-up, which is ERM, the network learns the colour, and the
domains part; once matching acts, they come together, the test domain too.

Run: python examples/risk_steps.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import riskmatch

STEPS = (25, 150, 175, 200, 350)
"""Drawn steps; the warm-up ends after step 150."""
LABELS = {"0.9": "90 %, training", "0.8": "80 %, training", "0.1": "10 %, test"}


def main(out: str = "out/risk_steps.png") -> None:
    """Train once and draw the risks at five steps."""
    with tempfile.TemporaryDirectory() as folder:
        run = riskmatch.train("colored-digits", "rdm", "0.1", eval_every=25, out=folder)
        risks, scores = run.predictions, run.evaluations
    risks = risks[risks["split"] == "val"]
    scores = scores[(scores["split"] == "val") & scores["test"]].set_index("step")["accuracy"]
    figure, panels = plt.subplots(
        2, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained"
    )
    edges = np.linspace(0, 3, 40)
    for axes, step in zip(panels.flat, STEPS, strict=False):
        for domain, label in LABELS.items():
            values = risks.loc[(risks["step"] == step) & (risks["domain"] == domain), "risk"]
            line = axes.hist(values.clip(upper=3), edges, density=True, histtype="step")[2][0]
            axes.axvline(values.mean(), ymax=0.1, color=line.get_edgecolor(), linewidth=2)
            line.set_label(label)
        phase = "warm-up" if step <= run.config.hparams["warmup"] else "matching"
        axes.set(title=f"step {step}, {phase}\ntest accuracy {scores[step]:.0%}", xlabel="risk")
        axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("density")
    panels[1, 2].axis("off")
    figure.legend(*axes.get_legend_handles_labels(), title="colour agrees", loc=(0.75, 0.2))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
