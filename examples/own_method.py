"""A method of your own, compared with ERM, VREx and RDM.

A method is a frozen dataclass: its fields are its hyper-parameters, its call returns the named
terms of the loss from a lazy view of the network on a batch. This one makes the largest domain
risk count more: the mean of the domain risks plus λ times their range. Passed as an object it
needs no registration; in a file ``my_methods.py`` it is ``--method my_methods:Spread`` on the
command line.

Run: python examples/own_method.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

import riskmatch
from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.space import LogUniform, tuned

NETWORK = {"widths": [64, 64], "init": "xavier", "single_logit": True}


@dataclass(frozen=True)
class Spread(Objective):
    """The mean of the domain risks plus λ times the range of the domain risks."""

    weight: float = tuned(10.0, LogUniform(-1, 2))
    """λ, of the range."""
    warmup: int = 150
    """Steps of ERM before the range counts."""

    citation = "an example"

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser after the warm-up."""
        return base.after_warmup(step, self.warmup)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if memory.step < self.warmup or not self.weight:
            return Terms({"risk": ev.risk})
        spread = ev.domain_risks.max() - ev.domain_risks.min()
        return Terms({"risk": ev.risk, "spread": self.weight * spread}, raw={"spread": spread})


def main(out: str = "out/own_method.png") -> None:
    """Train four methods and draw their accuracy on the test domain by step."""
    methods = {"ERM": "erm", "VREx": "vrex", "RDM": "rdm", "Spread, λ = 10": Spread()}
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    with tempfile.TemporaryDirectory() as folder:
        for label, method in methods.items():
            run = riskmatch.train(
                "colored-digits",
                method,
                "0.1",
                eval_every=25,
                data_options={"samples": 3000},
                model_options=NETWORK,
                predictions=False,
                out=folder,
            )
            rows = run.evaluations
            rows = rows[rows["test"] & (rows["split"] == "val")]
            axes.plot(rows["step"], 100 * rows["accuracy"], label=label)
    axes.axvline(150, color="grey", linewidth=0.6)
    axes.set(xlabel="step (line: end of the warm-up)", ylabel="accuracy on the test domain, %")
    axes.legend(frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
