"""Choosing λ: accuracy on training and test domains against the weight of the penalty.

RDM on coloured digits for four values of λ, with two moments and with the whole kernel, and ERM
as λ = 0. The scales of λ differ by divergence. The accuracy on the training domains needs no
labels of the test domain: it falls where the shortcut is given up.

Run: python examples/choosing_weight.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import riskmatch

WEIGHTS = {"moments": (1.0, 10.0, 100.0, 1000.0), "mmd": (10.0, 100.0, 1000.0, 10_000.0)}
NETWORK = {"widths": [64, 64], "init": "xavier", "single_logit": True}


def accuracies(folder: str, method: str, **options: object) -> dict[str, float]:
    """Accuracy in per cent on the validation samples of each domain after the last step."""
    run = riskmatch.train(
        "colored-digits",
        method,
        "0.1",
        eval_every=350,
        data_options={"samples": 3000},
        model_options=NETWORK,
        predictions=False,
        out=folder,
        **options,
    )
    rows = run.evaluations
    rows = rows[(rows["step"] == rows["step"].max()) & (rows["split"] == "val")]
    return dict(zip(rows["domain"], 100 * rows["accuracy"], strict=True))


def main(out: str = "out/choosing_weight.png") -> None:
    """Train nine runs and draw them."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
    with tempfile.TemporaryDirectory() as folder:
        erm = accuracies(folder, "erm")
        for axes, (divergence, weights) in zip(panels, WEIGHTS.items(), strict=True):
            options = {"divergence": divergence}
            rows = [erm] + [accuracies(folder, "rdm", weight=w, **options) for w in weights]
            for domain, style in {"0.9": ":", "0.8": "--", "0.1": "-"}.items():
                name = f"colour agrees {float(domain):.0%}" + ", test" * (domain == "0.1")
                axes.plot([row[domain] for row in rows], f".{style}", label=name)
            ticks = ["ERM", *(f"{weight:g}" for weight in weights)]
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set(title=f"divergence {divergence}", xlabel="λ")
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
