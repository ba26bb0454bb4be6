"""Watch a shipped model: is a new site worse than sites that were left out?

A model is trained on a table of five sites, and again without each of them; what these models say
on the site left out is stored in the folder of the model. The monitor tests whether a new site is
worse than the left-out sites differ among themselves, without the training data. One new site is
like those of training; at the other 30 % of the labels are flipped, against 5 % elsewhere. The
figure shows the distribution functions of their risks beside those held out in training.

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
    airports = ["JFK", "LGA", "ORD", "ATL", "DEN"]
    training = pd.concat(visits(name, 0.05, seed) for seed, name in enumerate(airports))
    new = pd.concat([visits("EWR, alike", 0.05, seed=7), visits("BOS, shifted", 0.3, seed=8)])
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        options = {"label": "late", "domain": "airport", "steps": 200, "out": folder}
        riskmatch.train(training, "erm", save=model, left_out=True, **options)
        report = riskmatch.monitor(model, new, label="late", domain="airport")
    print("\n".join(report.lines))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    save(report.figure().draw(), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
