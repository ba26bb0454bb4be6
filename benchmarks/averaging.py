"""Compare SWA and SWAD with no averaging, paired by method, test domain and trial.

`python benchmarks/averaging.py` reads the runs in results/averaging/digits and
results/averaging/pacs and writes results/averaging/averaging.md.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from riskmatch import choose, results
from riskmatch.report.tables import Amount, Cell, Gain, Table
from riskmatch.statistics import UNITS, Unit

FOLDER = Path(__file__).resolve().parent.parent / "results" / "averaging"
SETS = {"digits": "ColoredDigits", "pacs": "PACS, frozen"}
AVERAGES = ("none", "swa", "swad")
PAIRED = ["method", "test_domain", "trial"]


def last(folder: Path) -> pd.DataFrame:
    """Accuracy on the test domain at the last evaluation of every run."""
    frame = results(folder).sort_values("step").groupby("run").tail(1).copy()
    frame["test_domain"] = [tests[0] for tests in frame["test_domains"]]
    frame["value"] = [row[f"accuracy/train/{row['test_domain']}"] for _, row in frame.iterrows()]
    return frame[[*PAIRED, "average", "value"]]


def selected(folder: Path) -> pd.DataFrame:
    """Accuracy on the test domain at the step that train-val chooses among those that act."""
    runs = results(folder).drop_duplicates("run")[["run", "method", "average"]]
    chosen = choose(folder, "train-val", after_warmup=True)
    return chosen.merge(runs, on="run")[[*PAIRED, "average", "value"]]


def gain(differences: pd.Series[float], unit: Unit) -> Gain:
    """The mean of paired differences, with the interval of a unit."""
    return Gain.of(differences.unstack("trial").to_numpy().tolist(), unit)


def rows(name: str, step: str, frame: pd.DataFrame) -> list[tuple[Cell, ...]]:
    """Rows per method and unit: accuracies, and gains over no averaging."""
    found: list[tuple[Cell, ...]] = []
    for method, own in frame.groupby("method"):
        wide = 100 * own.pivot(index=PAIRED, columns="average", values="value")
        if wide.isna().any(axis=None) or list(wide.columns) != list(AVERAGES):
            raise SystemExit(f"{name}: runs of {method} are missing; train them first.")
        means: list[Cell] = [Amount(wide[average].mean(), 1) for average in AVERAGES]
        for unit in ("domains", "new-domain"):
            gains = [gain(wide[average] - wide["none"], unit) for average in AVERAGES[1:]]
            if any(one.error is not None for one in gains):
                head = (name, str(method).upper(), step, UNITS[unit], len(gains[0].values))
                found.append((*head, *means, *gains))
    return found


def main() -> None:
    """Write the table."""
    body = [
        row
        for folder, name in SETS.items()
        for step, accuracies in (("last", last), ("train-val", selected))
        for row in rows(name, step, accuracies(FOLDER / folder))
    ]
    caption = (
        "Accuracy on the test domain in per cent, mean over test domains and trials. "
        "Averages are those of the last step; runs without are taken at their "
        "last step, or at that of the highest mean validation accuracy over the training domains "
        "among the steps at which the method acts (train-val). Gains: mean paired difference from "
        "none ± half of its 95 % t-interval, of these domains (n pairs, of which trials are drawn) "
        "or of a new domain (n domains)."
    )
    columns = (
        "data",
        "method",
        "step of none",
        "unit",
        "n",
        *AVERAGES,
        "gain of swa",
        "gain of swad",
    )
    text = Table(caption, columns, tuple(body)).markdown()
    (FOLDER / "averaging.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
