"""Watch a shipped model: is a new site like those of training?

A model is trained on a table of two sites and saved as a folder. Its held-out risks are stored
there, so that the monitor can test whether the risks at a new site are distributed alike, without
the training data. One new site is like those of training; at the other 30 % of the labels
are flipped, against 5 % elsewhere. The figure shows the distribution functions that are compared.

Run: python examples/monitoring.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import riskmatch
from riskmatch.report.figures import save


def visits(site: str, flipped: float, seed: int, rows: int = 600) -> pd.DataFrame:
    """A table with two measurements, the label and the site."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(generator.normal(size=(rows, 2)), columns=["wind", "traffic"])
    late = table["wind"] + table["traffic"] + 0.5 * generator.normal(size=rows) > 0
    return table.assign(late=late ^ (generator.random(rows) < flipped), airport=site)


def main(out: str = "out/monitoring.png") -> None:
    """Train, save, monitor two new sites and draw their risks."""
    training = pd.concat([visits("JFK", 0.05, seed=0), visits("LGA", 0.05, seed=1)])
    new = pd.concat([visits("EWR, alike", 0.05, seed=2), visits("BOS, shifted", 0.3, seed=3)])
    with tempfile.TemporaryDirectory() as folder:
        run = riskmatch.train(
            training, "erm", label="late", domain="airport", steps=200, out=folder
        )
        model = riskmatch.save_model(run, Path(folder) / "model")
        report = riskmatch.monitor(model, new, label="late", domain="airport")
    tests = report.tests[report.tests["against"] == "pool"]
    print(tests[["site", "mean", "reference_mean", "effect", "p_adjusted"]].to_string(index=False))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    save(report.figure().draw(), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
