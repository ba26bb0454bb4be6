"""Selection rules: the same runs, three tables.

ERM, RDM and VREx on coloured digits, two weights and two trials each. Every dot is one evaluation
of one run: its accuracy on the validation samples of the training domains against that on the
test domain. A rule picks one dot per method and trial. Training-domain validation picks the dots
furthest right, where the colour is used: steps of the warm-up, at which RDM and VREx are still
ERM. Among the steps at which the methods act it picks others, and the oracle, which sees labels
of the test domain, picks the best last step.

Run: python examples/selection_rules.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import riskmatch

WEIGHTS = {"erm": [None], "rdm": [10.0, 1000.0], "vrex": [10.0, 10_000.0]}
NETWORK = {"widths": [64, 64], "init": "xavier", "single_logit": True}
RULES = {
    "train-val": ("train-val", False),
    "train-val, after the warm-up": ("train-val", True),
    "test-val (oracle)": ("test-val", False),
}


def main(out: str = "out/selection_rules.png") -> None:
    """Train ten runs, choose by three rules, and draw both."""
    chosen = {}
    with tempfile.TemporaryDirectory() as folder:
        for method, weights in WEIGHTS.items():
            for weight in weights:
                options = {} if weight is None else {"weight": weight}
                for seed in (0, 1):
                    riskmatch.train(
                        "colored-digits",
                        method,
                        "0.1",
                        **options,
                        data_options={"samples": 3000},
                        model_options=NETWORK,
                        seed=seed,
                        trial=seed,
                        predictions=False,
                        out=folder,
                    )
        runs = riskmatch.results(folder)
        for label, (rule, after) in RULES.items():
            table = riskmatch.choose(folder, rule, after_warmup=after)
            chosen[label] = 100 * table.groupby("variant")["accuracy"].mean()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for method, rows in runs.groupby("method"):
        training = rows[["accuracy/val/0.9", "accuracy/val/0.8"]].mean(axis=1)
        left.plot(100 * training, 100 * rows["accuracy/val/0.1"], ".", alpha=0.6, label=method)
    left.set(xlabel="accuracy on training domains, %", ylabel="accuracy on the test domain, %")
    left.legend(frameon=False)
    table = pd.DataFrame(chosen)
    print(table.round(1).to_string())
    table.plot.bar(ax=right, rot=0, width=0.8)
    right.set(ylabel="accuracy on the test domain, %", xlabel="")
    right.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
