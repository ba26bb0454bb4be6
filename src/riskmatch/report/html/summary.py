"""Summary sentences of a report: the worst domain, and whether matching worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from riskmatch.report.html.tables import text
from riskmatch.report.tables import format_cell

LEVEL = 0.05
"""Significance level of the permutation test."""


def summary(data: Mapping[str, Any]) -> list[str]:
    """At most two sentences, after what there is to say against single runs.

    For a single run: its worst domain, and how the distance between training domains changed. For
    several: the difference of one method from ERM, and the runs with the closest domains.
    """
    runs = data["runs"]
    if len(runs) == 1:
        # Distributions that meet because the network is lost are no success.
        change = "" if runs[0].get("findings") else distance_change(runs[0])
        sentences = [worst_domain(runs[0]), change]
    else:
        sentences = [best_difference(data["comparison"]), closest_run(runs), common_worst(runs)]
    warnings = [
        line if len(runs) == 1 else f"“{run['title']}”: {line}"
        for run in runs
        for line in run.get("findings", ())
    ]
    return [*warnings, *[sentence for sentence in sentences if sentence][:2]] or [
        "These records hold too few evaluations for a summary."
    ]


def closest_run(runs: Sequence[Mapping[str, Any]]) -> str:
    """The runs with the smallest and the largest distance between training domains at the end.

    Empty where runs have different training domains, whose distances do not compare.
    """
    if any(run["training_domains"] != runs[0]["training_domains"] for run in runs):
        return ""
    distances = [
        (fmean(values), run["title"])
        for run in runs
        if run["snapshots"]
        and (values := _pair_distances(run["snapshots"][-1], run["training_domains"])[0])
    ]
    if len(distances) < 2:
        return ""
    (least, title), (most, other) = min(distances), max(distances)
    if text(least) == text(most):
        return ""
    return (
        "At the last step the risk distributions of the training domains are closest in "
        f"“{title}” (mean MMD² {text(least)}) and furthest apart in “{other}” ({text(most)})."
    )


def worst_domain(run: Mapping[str, Any]) -> str:
    """The worst training domain at the end, and in how many evaluations it was worst."""
    worst = [name for name in run["curves"]["worst"] if name]
    if not worst:
        return ""
    last = worst[-1]
    return (
        f"The worst training domain at the end is “{last}”; it was worst in {worst.count(last)} "
        f"of {len(worst)} evaluations."
    )


def common_worst(runs: Sequence[Mapping[str, Any]]) -> str:
    """The training domain that is worst at the end of most runs."""
    last = Counter(worst[-1] for run in runs if (worst := run["curves"]["worst"]) and worst[-1])
    if not last:
        return ""
    name, count = last.most_common(1)[0]
    total = sum(last.values())
    return f"The training domain “{name}” is the worst at the end of {count} of {total} runs."


def distance_change(run: Mapping[str, Any]) -> str:
    """Mean MMD² between training domains at the first and at the last step."""
    snapshots = run["snapshots"]
    if not snapshots:
        return ""
    last, p_values = _pair_distances(snapshots[-1], run["training_domains"])
    first, _ = _pair_distances(snapshots[0], run["training_domains"])
    if not last:
        return ""
    test, differing = "", sum(p < LEVEL for p in p_values)
    if p_values:
        test = f"; {differing} of {len(p_values)} pairs differ significantly (p < {LEVEL})"
    after = fmean(last)
    if not first or len(snapshots) == 1:
        return f"The mean MMD² between training domains is {text(after)}{test}."
    before = fmean(first)
    if text(before) == text(after):  # equal as printed
        return f"The mean MMD² between training domains stayed at {text(after)}{test}."
    moved, verb = ("closer together", "fell") if after < before else ("further apart", "rose")
    return (
        f"The risk distributions of the training domains moved {moved}: their mean MMD² {verb} "
        f"from {text(before)} at step {snapshots[0]['step']} to {text(after)} at step "
        f"{snapshots[-1]['step']}{test}."
    )


def best_difference(comparison: Mapping[str, Any] | None) -> str:
    """The difference from ERM whose confidence interval has the highest lower end."""
    rows = [d for d in (comparison or {}).get("differences", []) if d["mean"] is not None]
    if not rows:
        return ""
    bounded = [d for d in rows if d["low"] is not None and d["high"] is not None]
    best = max(bounded or rows, key=lambda d: d["low"] if bounded else d["mean"])
    side = "above" if best["mean"] >= 0 else "below"
    pairs = f"{best['pairs']} pair" + "s" * (best["pairs"] != 1)
    if not bounded:
        interval = f"no confidence interval from {pairs}"
    else:
        zero = "excludes" if best["low"] > 0 or best["high"] < 0 else "includes"
        ends = f"{format_cell(best['low'])} to {format_cell(best['high'])}"
        interval = f"the 95 % interval, {ends} over {pairs}, {zero} zero"
    return (
        f"On the test domains {best['method']} is {format_cell(abs(best['mean']))} points {side} "
        f"{best['against']}; {interval}."
    )


def worst_counts(run: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Domains that were worst, with the number of evaluations in which they were.

    Example:
        >>> worst_counts({"curves": {"worst": ["a", "b", "b"]}})
        [('b', 2), ('a', 1)]
    """
    return Counter(name for name in run["curves"]["worst"] if name).most_common()


def _pair_distances(
    snapshot: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[float], list[float]]:
    """MMD² of all pairs of the named domains, and their p-values, where known."""
    mmd = snapshot["mmd"] or {"domains": []}
    places = [place for place, name in enumerate(mmd["domains"]) if name in names]
    pairs = list(combinations(places, 2))
    values, p = ([mmd[key][i][j] for i, j in pairs] for key in ("value", "p"))
    return [v for v in values if v is not None], [v for v in p if v is not None]
