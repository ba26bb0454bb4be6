"""Simulate what intervals and alarms promise.

    python benchmarks/honest.py intervals
    python benchmarks/honest.py alarms

`intervals`: coverage and width of the 90 % interval for a new site, estimated from m sites, beside
the t interval mean ± t · s · √(1 + 1/m), cut to the range.

`alarms`: how often `monitor` alarms on new sites of the population of the left-out sites, on these
themselves, under 12 looks, and where errors and risks are 1.25 and 1.5 times as many.

A study is a function that prints and writes `results/statistics/NAME.json` and `NAME.md`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from riskmatch.deployment.alarm import judge_sites
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import at_least_worst, new_site_interval

RESULTS = Path(__file__).resolve().parent.parent / "results" / "statistics"
LEVEL, REPETITIONS, FRESH = 0.9, 2000, 2000
"""Level of intervals, repetitions, and new sites that each interval is tried on."""
SITES = (3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]


def _bimodal(rng: np.random.Generator, n: tuple[int, ...]) -> NDArray[np.float64]:
    """Two kinds of sites, as often, at 0.6 and 0.85."""
    return np.where(rng.random(n) < 0.5, 0.6, 0.85) + 0.03 * rng.normal(size=n)


POPULATIONS: dict[str, tuple[Draw, tuple[float, float | None]]] = {
    "normal": (lambda rng, n: rng.normal(0.7, 0.1, n), (0, 1)),
    "skewed": (lambda rng, n: 0.9 - rng.gamma(1.5, 0.1, n), (0, 1)),
    "bimodal": (_bimodal, (0, 1)),
    "heavy-tailed": (lambda rng, n: 0.7 + 0.06 * rng.standard_t(3, n), (0, 1)),
    "near 1": (lambda rng, n: rng.beta(20, 1, n), (0, 1)),
    "errors": (lambda rng, n: rng.lognormal(1, 0.4, n), (0, None)),
}
"""How sites are drawn, and the range of the metric, to which they are cut."""


def intervals() -> None:
    """Coverage and width of the interval for a new site, and of the t interval."""
    rows, rng = [], np.random.default_rng(0)
    for m in SITES:
        for name, (draw, (low, high)) in POPULATIONS.items():
            sites = np.clip(draw(rng, (REPETITIONS, m)), low, high)
            fresh = np.clip(draw(rng, (REPETITIONS, FRESH)), low, high)
            ends = np.array([new_site_interval(row, LEVEL, (low, high)) for row in sites])
            found = {"new": ends, "t": np.clip(_t_intervals(sites), low, high)}
            row: dict[str, Any] = {"sites": m, "population": name, "promised": at_least_worst(m)}
            worse = fresh > sites.max(1)[:, None] if high is None else fresh < sites.min(1)[:, None]
            row["no worse than the worst"] = 1 - worse.mean()
            for kind, (start, end) in {kind: values.T for kind, values in found.items()}.items():
                inside = (start[:, None] <= fresh) & (fresh <= end[:, None])
                row |= {f"coverage {kind}": inside.mean(), f"width {kind}": (end - start).mean()}
            rows.append(row)
    count = f"{REPETITIONS:,} repetitions; each cell: `new_site_interval` / t interval.\n\n"
    table = [
        f"## {title}\n\n" + count * first + _by_population(rows, cell)
        for first, title, cell in (
            (True, "Coverage in per cent; 90 are promised", lambda r: _pair(r, "coverage", 100)),
            (False, "Mean width", lambda r: _pair(r, "width", 1)),
            (
                False,
                "No worse than the worst of m sites, in per cent; m/(m + 1) is promised",
                lambda r: f"{100 * r['no worse than the worst']:.1f} ({100 * r['promised']:.1f})",
            ),
        )
    ]
    write("intervals", rows, "\n".join(table))


def _t_intervals(sites: NDArray[np.float64]) -> NDArray[np.float64]:
    """(repetitions, 2) t prediction intervals."""
    from scipy.special import stdtrit

    m = sites.shape[1]
    half = stdtrit(m - 1, (1 + LEVEL) / 2) * sites.std(1, ddof=1) * np.sqrt(1 + 1 / m)
    return np.stack([sites.mean(1) - half, sites.mean(1) + half], 1)


def _pair(row: dict[str, Any], name: str, scale: int) -> str:
    return " / ".join(
        f"{scale * row[f'{name} {kind}']:.{1 if scale > 1 else 2}f}" for kind in ("new", "t")
    )


def _by_population(rows: list[dict[str, Any]], cell: Callable[[dict[str, Any]], str]) -> str:
    """A row per number of sites, a column per population."""
    lines = ["| m | " + " | ".join(POPULATIONS) + " |", "| --: |" + " --: |" * len(POPULATIONS)]
    for m in SITES:
        cells = [cell(row) for row in rows if row["sites"] == m]
        lines.append(f"| {m} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(name: str, values: Any, text: str) -> None:
    """Write JSON values and their table."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


LEFT_OUT, ALARM_REPETITIONS, LOOKS, ALARM_LEVEL = (3, 4, 7, 12), 1000, 12, 0.05
STORED, NEW, SEEN = (50, 200, 1000), (30, 300), 100
"""Samples of a left-out site, of a new one, and of each of its looks."""
FACTORS = (1.25, 1.5)
SPREADS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "alike": lambda rng, m: expit(rng.normal(-1.5, 0.1, m)),
    "apart": lambda rng, m: expit(rng.normal(-1.5, 0.4, m)),
    "far apart": lambda rng, m: expit(rng.normal(-1.5, 1.0, m)),
    "skewed": lambda rng, m: rng.beta(1, 4, m),
}
"""The rate of errors at m sites; the mean risk is three times as high."""
LOOKED_AT = "alike", "apart"
"""Populations of repeated looks, in which sampling errors matter most."""


def scored(rng: np.random.Generator, rate: float, n: int) -> Predictions:
    """Samples of a site: errors with a rate, and risks of three times that mean."""
    right = (rng.random(n) >= min(rate, 0.99)).astype(int)
    risks = rng.gamma(0.5, 6 * rate, n)
    return Predictions(np.arange(n), np.ones(n, int), right, np.ones(n), risks)


def left_out_site(rng: np.random.Generator, name: str, rate: float) -> LeftOutSite:
    """A site that was left out."""
    n = int(rng.choice(STORED))
    told = scored(rng, rate, n)
    metrics = {"accuracy": float(told.predicted.mean())}
    mean = float(told.risk.mean())
    return LeftOutSite(name, (), n, metrics, mean, "", told, np.zeros((n, 0)), told)


def alarm_cell(population: str, m: int, seed: int) -> dict[str, Any]:
    """Alarms among repetitions with m left-out sites of a population."""
    rng, counts = np.random.default_rng(seed), dict[str, int]()
    for _ in range(ALARM_REPETITIONS):
        *known, new = SPREADS[population](rng, m + 1)
        left_out = {str(k): left_out_site(rng, str(k), rate) for k, rate in enumerate(known)}
        rates = {"fresh": new, "training": known[0]}
        rates |= {f"× {factor}": factor * new for factor in FACTORS}
        sites = {name: [scored(rng, r, int(rng.choice(NEW)))] for name, r in rates.items()}
        if population in LOOKED_AT:
            sites[f"{LOOKS} looks"] = [scored(rng, new, SEEN) for _ in range(LOOKS)]
        for metric in ("accuracy", "risk"):
            for name, looks in sites.items():
                judged = (
                    judge_sites(left_out, {name: (look, None)}, metric, ALARM_LEVEL, len(looks))[0]
                    for look in looks
                )
                raised = any(row["alarm"] for (row,) in judged)
                counts[f"{metric}, {name}"] = counts.get(f"{metric}, {name}", 0) + raised
    shares = {name: count / ALARM_REPETITIONS for name, count in counts.items()}
    return {"population": population, "m": m, **shares}


def alarms() -> None:
    """Simulate the alarm of `monitor`, or read what is recorded."""
    file = RESULTS / "alarms.jsonl"
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    plan = [(population, m) for population in SPREADS for m in LEFT_OUT]
    with file.open("a") as record:
        for seed, (population, m) in list(enumerate(plan))[len(rows) :]:
            rows.append(alarm_cell(population, m, seed))
            print(json.dumps(rows[-1], ensure_ascii=False), file=record, flush=True)
    scenarios = ["fresh", "training", f"{LOOKS} looks", *(f"× {factor}" for factor in FACTORS)]
    lines = ["| metric | population | m | " + " | ".join(scenarios) + " |"]
    lines.append("| :-- | :-- | --: |" + " --: |" * len(scenarios))
    most = dict.fromkeys(scenarios[:3], 0.0)
    for metric in ("accuracy", "risk"):
        for row in rows:
            shares = [row.get(f"{metric}, {name}") for name in scenarios]
            cells = ["" if share is None else f"{100 * share:.1f}" for share in shares]
            lines.append(f"| {metric} | {row['population']} | {row['m']} | {' | '.join(cells)} |")
            most |= {k: max(v, s or 0) for (k, v), s in zip(most.items(), shares, strict=False)}
    bound = 100 * (ALARM_LEVEL + 2 * math.sqrt(ALARM_LEVEL * (1 - ALARM_LEVEL) / ALARM_REPETITIONS))
    lines += [
        "",
        f"Alarms in % of {ALARM_REPETITIONS:,} repetitions. 5 % + 2 standard errors: {bound:.1f}.",
    ]
    lines += ["Most: " + ", ".join(f"{name} {100 * share:.1f}" for name, share in most.items())]
    (RESULTS / "alarms.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


STUDIES: dict[str, Callable[[], None]] = {"intervals": intervals, "alarms": alarms}


def main() -> None:
    """Run the study that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    STUDIES[parser.parse_args().study]()


if __name__ == "__main__":
    main()
