"""Risk matching in scikit-learn: from four sites to a fifth that is not here yet.

At every site a measurement ("cause") determines the label, with noise. A second one ("shortcut")
agrees with the label too, more at some sites than at others; at the fifth site it is reversed.
ERM relies on both; matching the risks of the sites gives up the shortcut.

Run: python examples/scikit_learn.py [PNG]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from riskmatch import RiskMatchingClassifier

AGREEMENT = {"north": 0.95, "south": 0.85, "east": 0.6, "west": 0.45, "fifth": 0.1}
"""Share of samples at which the shortcut agrees with the label."""


def visits(samples: int = 250, seed: int = 0) -> pd.DataFrame:
    """A table with the columns cause, shortcut, late and site."""
    generator = np.random.default_rng(seed)
    tables = []
    for site, agreement in AGREEMENT.items():
        late = generator.integers(2, size=samples)
        cause = late ^ (generator.random(samples) > 0.75)
        shortcut = late ^ (generator.random(samples) > agreement)
        columns = {"cause": cause, "shortcut": shortcut}
        table = pd.DataFrame(columns) + 0.1 * generator.normal(size=(samples, 2))
        tables.append(table.assign(late=late, site=site))
    return pd.concat(tables, ignore_index=True)


def main(out: str = "out/scikit_learn.png", steps: int = 120) -> pd.DataFrame:
    """Train ERM and RDM on four sites; returns their accuracies at every site."""
    table = visits()
    here = table[table.site != "fifth"]
    columns = ["cause", "shortcut"]
    sklearn.set_config(enable_metadata_routing=True)
    classifier = RiskMatchingClassifier(
        divergence="moments",
        match="variance",
        warmup=steps // 4,
        max_iter=steps,
        lr=0.02,
        hidden_layer_sizes=(16,),
        random_state=0,
    )
    pipeline = make_pipeline(StandardScaler(), classifier.set_fit_request(domains=True))
    # The weight is chosen without looking at the fifth site: each of the four is left out in turn.
    weight = "riskmatchingclassifier__weight"
    accuracies = {}
    for name, weights in {"ERM": [0.0], "RDM": [3.0, 30.0]}.items():
        search = GridSearchCV(pipeline, {weight: weights}, cv=LeaveOneGroupOut())
        search.fit(here[columns], here.late, domains=here.site, groups=here.site)
        label = name if len(weights) == 1 else f"{name}, weight {search.best_params_[weight]:g}"
        right = search.predict(table[columns]) == table.late
        accuracies[label] = right.groupby(table.site, sort=False).mean()
    result = pd.DataFrame(accuracies)
    print(result.round(3).to_string())
    axes = result.plot.bar(rot=0, ylabel="accuracy", figsize=(6, 3), ylim=(0, 1))
    axes.set(title="four sites of training, and a fifth")
    axes.legend(loc="upper left", ncols=2, frameon=False)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(out, dpi=150, bbox_inches="tight")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
