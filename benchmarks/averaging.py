"""Compare SWA and SWAD with no averaging, paired by method, test domain and trial.

`python benchmarks/averaging.py` reads the runs in results/averaging/digits and
results/averaging/pacs and writes results/averaging/averaging.md.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from riskmatch import choose, results
from riskmatch.report.tables import Amount, Cell, Gain, Table

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


def rows(name: str, step: str, frame: pd.DataFrame) -> list[tuple[Cell, ...]]:
    """A row per method: accuracies, and gains over no averaging."""
    found: list[tuple[Cell, ...]] = []
    for method, own in frame.groupby("method"):
        wide = 100 * own.pivot(index=PAIRED, columns="average", values="value")
        if wide.isna().any(axis=None) or list(wide.columns) != list(AVERAGES):
            raise SystemExit(f"{name}: runs of {method} are missing; train them first.")
        means: list[Cell] = [Amount(wide[average].mean(), 1) for average in AVERAGES]
        gains: list[Cell] = [Gain(tuple(wide[average] - wide["none"])) for average in AVERAGES[1:]]
        found.append((name, str(method).upper(), step, len(wide), *means, *gains))
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
        "Accuracy on the test domain in per cent, mean over n pairs of test domain and trial. "
        "Averages are those of the last step; runs without are taken at their "
        "last step, or at that of the highest mean validation accuracy over the training domains "
        "among the steps at which the method acts (train-val). Gains: mean paired difference from "
        "none ± half of its 95 % t-interval."
    )
    columns = ("data", "method", "step of none", "n", *AVERAGES, "gain of swa", "gain of swad")
    text = Table(caption, columns, tuple(body)).markdown()
    (FOLDER / "averaging.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
