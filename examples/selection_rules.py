"""Selection rules: the same runs, three tables.

The runs are those of ERM, RDM and VREx on PACS in results/pacs/frozen: heads on frozen features,
five draws of the hyper-parameters and three trials. Left, every evaluation of the runs with
photos as the test domain: training-domain validation looks along the horizontal axis, and the
vertical one is what is reported. Right, the averages over the four test domains that three rules
choose from all runs. Steps of the warm-up, at which RDM is ERM and VREx has λ = 1, are often the
best by the first rule.

Run: python examples/selection_rules.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import riskmatch

SWEEP = Path(__file__).resolve().parent.parent / "results" / "pacs" / "frozen"
METHODS = ["erm", "rdm", "vrex"]
RULES = {
    "train-val": ("train-val", False),
    "train-val, after the warm-up": ("train-val", True),
    "test-val (oracle)": ("test-val", False),
}


def main(out: str = "out/selection_rules.png") -> None:
    """Choose by three rules and draw what they choose from."""
    runs = riskmatch.results(SWEEP)
    chosen = {}
    for label, (rule, after_warmup) in RULES.items():
        choice = riskmatch.choose(SWEEP, rule, after_warmup=after_warmup)
        chosen[label] = 100 * choice.groupby("variant")["value"].mean()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    photos = runs[runs["test_domains"] == ("photo",)]
    for method in METHODS:
        rows = photos[photos["method"] == method]
        training = rows[[f"accuracy/val/{name}" for name in ("art_painting", "cartoon", "sketch")]]
        test = 100 * rows["accuracy/train/photo"]
        left.plot(100 * training.mean(axis=1), test, ".", markersize=3, alpha=0.5, label=method)
    left.set(xlabel="validation accuracy, training domains, %", ylabel="accuracy on photos, %")
    left.set(xlim=(60, None), ylim=(60, None), title="every evaluation")
    left.legend(frameon=False, markerscale=3)
    table = pd.DataFrame(chosen).loc[METHODS]
    print(table.round(1).to_string())
    table.plot(ax=right, style=["o", "s", "^"], xlim=(-0.5, 2.5), ylim=(66, 73), xlabel="")
    right.set_xticks(range(len(METHODS)), METHODS)
    right.set(title="chosen by", ylabel="mean over test domains, %")
    right.legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
