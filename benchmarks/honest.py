"""Simulate what intervals and alarms promise.

    python benchmarks/honest.py intervals

`intervals`: coverage and width of the 90 % interval for a new site, estimated from m sites, beside
the t interval mean ± t · s · √(1 + 1/m), cut to the range.

A study is a function that prints and writes `results/statistics/NAME.json` and `NAME.md`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


STUDIES: dict[str, Callable[[], None]] = {"intervals": intervals}


def main() -> None:
    """Run the study that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    STUDIES[parser.parse_args().study]()


if __name__ == "__main__":
    main()
