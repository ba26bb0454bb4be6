"""Simulate what intervals and alarms promise.

    python benchmarks/honest.py intervals
    python benchmarks/honest.py alarms
    python benchmarks/honest.py verdict

`intervals`: coverage and width of the 90 % interval for a new site, estimated from m sites, beside
the t interval mean ± t · s · √(1 + 1/m), cut to the range.

`alarms`: how often `monitor` alarms on new sites of the population of the left-out sites, on these
themselves, under 12 looks, and where errors and risks are 1.25 and 1.5 times as many.

`verdict`: how often a report says that a method is better or worse than ERM where none is.

A study is a function that prints and writes `results/statistics/NAME.json` and `NAME.md`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from riskmatch.deployment.alarm import judge_sites
from riskmatch.deployment.left_out import LeftOutSite
from riskmatch.report.gains import adjusted_gains
from riskmatch.report.tables import LEVEL as GAIN_LEVEL
from riskmatch.report.tables import Amount, Column, Table
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import UNITS, Unit, at_least_worst, new_site_interval, paired_gain

RESULTS = Path(__file__).resolve().parent.parent / "results" / "statistics"
LEVEL, REPETITIONS, FRESH = 0.9, 2000, 2000
"""Level of intervals, repetitions, and new sites that each interval is tried on."""
METHODS, JOBS = (5, 34), 2
"""Numbers of methods that are compared with ERM, and processes."""
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


class Null(NamedTuple):
    """A population in which no method is better or worse than ERM."""

    unit: Unit
    domains: int
    trials: int
    between: float = 0.0
    """Standard deviation between domains of the effect of a method; that of a trial is 1."""
    note: str = ""


NULLS = (
    Null("domains", 4, 3),
    Null("domains", 4, 3, 2.0),
    Null("domains", 4, 2, 2.0),
    Null("domains", 12, 2, 2.0),
    Null("domains", 4, 3, 2.0, "a run is missing"),
    Null("domains", 4, 3, 2.0, "trials of a domain vary twice as much"),
    Null("new-domain", 3, 3, 2.0),
    Null("new-domain", 4, 3),
    Null("new-domain", 4, 3, 2.0),
    Null("new-domain", 6, 1, 2.0),
    Null("new-domain", 12, 1),
    Null("new-domain", 12, 1, 2.0),
    Null("new-domain", 20, 3, 2.0),
    Null("new-domain", 6, 1, 2.0, "a run is missing"),
)


AGAIN = Null("new-domain", 20, 3, 2.0)
"""Simulated again with other seeds, as its share of 6.3 % could be more than chance."""


def differences(null: Null, methods: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Differences of methods from one ERM, which correlates them."""
    effects = null.between * rng.normal(size=(methods + 1, null.domains, 1))
    if null.unit == "domains":  # no effect on average over these domains
        effects -= effects.mean(1, keepdims=True)
    noise = rng.normal(size=(methods + 1, null.domains, null.trials))
    if "twice" in null.note:
        noise[:, 0] *= 2
    values = effects + noise
    made = values[1:] - values[0]
    if "missing" in null.note:
        made[0, 0, 0] = math.nan
    return np.asarray(made)


def old_rule(made: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the t-interval over domains × trials, as if independent, excludes zero."""
    from scipy.special import stdtrit

    flat = made.reshape(len(made), -1)
    n = (~np.isnan(flat)).sum(1)
    half = stdtrit(n - 1, 1 - GAIN_LEVEL / 2) * np.nanstd(flat, axis=1, ddof=1) / np.sqrt(n)
    return np.asarray(abs(np.nanmean(flat, axis=1)) > half)


def rejections(null: Null, methods: int, seed: int) -> dict[str, Any]:
    """Shares of repetitions in which each rule rejects."""
    rng = np.random.default_rng(seed)
    one, some, verdict = 0, 0, 0
    for _ in range(REPETITIONS):
        made = differences(null, methods, rng)
        old = old_rule(made)
        one += bool(old[-1])
        some += bool(old.any())
        table = made.tolist()
        single = (paired_gain(rows, null.unit).p for rows in table)
        if any(p is not None and p < GAIN_LEVEL for p in single):  # no adjusted p is smaller
            gains = adjusted_gains(table, null.unit)
            verdict += any(gain.significant for gain in gains)
    return {
        **null._asdict(),
        "methods": methods,
        "old, one method": one / REPETITIONS,
        "old, any method": some / REPETITIONS,
        "verdict": verdict / REPETITIONS,
    }


def verdict_table(made: Iterable[dict[str, Any]]) -> Table:
    """Shares of rejections of the verdict, beside those of the rule before it."""

    def column(name: str, title: str = "", percent: bool = False) -> Column:
        if percent:
            return Column(title or name, lambda row: Amount(100 * row[name], 1))
        return Column(title or name, lambda row: row[name])

    limit = 100 * (GAIN_LEVEL + 2 * math.sqrt(GAIN_LEVEL * (1 - GAIN_LEVEL) / REPETITIONS))
    return Table.of(
        f"Verdicts of a report where no method differs from ERM, in per cent of {REPETITIONS:,} "
        f"repetitions; {100 * GAIN_LEVEL:.0f} % plus two standard errors is {limit:.1f} %. ERM is "
        "shared, so that methods correlate by 0.5; trials have a standard deviation of 1.",
        [
            Column("unit", lambda row: UNITS[row["unit"]]),
            column("domains"),
            column("trials"),
            Column(
                "spread",
                lambda row: Amount(row["between"], 0),
                "standard deviation of the effect of a method between domains",
            ),
            column("note", "besides"),
            column("methods"),
            column("old, one method", percent=True),
            Column(
                "old, any method",
                lambda row: Amount(100 * row["old, any method"], 1),
                "some 95 % t-interval over domains × trials, as if independent, excludes zero",
            ),
            Column(
                "verdict",
                lambda row: Amount(100 * row["verdict"], 1),
                "some p-value of the unit, adjusted over all methods, is below 0.05: by step-down "
                "max-t, by Holm's method where a run is missing",
            ),
        ],
        made,
    )


def verdict() -> None:
    """Rejections of the verdict under the null hypothesis."""
    cases = [(null, methods) for methods in METHODS for null in NULLS]
    cases += [(AGAIN._replace(note=f"again, seed {seed}"), METHODS[-1]) for seed in (28, 29)]
    with ProcessPoolExecutor(JOBS) as pool:
        made = list(pool.map(rejections, *zip(*cases, strict=True), range(len(cases))))
    write("verdict", made, verdict_table(made).markdown() + "\n")


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


STUDIES: dict[str, Callable[[], None]] = {
    "intervals": intervals,
    "alarms": alarms,
    "verdict": verdict,
}


def main() -> None:
    """Run the study that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    STUDIES[parser.parse_args().study]()


if __name__ == "__main__":
    main()
