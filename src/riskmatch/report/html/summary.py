"""What happened, in two plain sentences: which domain is worst, and whether matching worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from riskmatch.report.html.cells import number

LEVEL = 0.05
"""Two domains are told apart where the permutation p-value is below it."""


def summary(data: Mapping[str, Any]) -> list[str]:
    """At most two sentences.

    Of a run: its worst domain, and how its training domains moved. Of several: how one does
    against the method it is compared with, and in which the domains are closest.
    """
    runs = data["runs"]
    if len(runs) == 1:
        said = [worst_domain(runs[0]), matching(runs[0])]
    else:
        said = [difference(data["comparison"]), closest(runs), worst_at_the_end(runs)]
    found = [sentence for sentence in said if sentence][:2]
    return found or ["There is too little in these records to say how matching went."]


def closest(runs: Sequence[Mapping[str, Any]]) -> str:
    """Which of several runs brought the risks of its training domains closest together."""
    ends = [
        (fmean(values), run["title"])
        for run in runs
        if run["snapshots"] and (values := _apart(run["snapshots"][-1], run["training_domains"])[0])
    ]
    if len(ends) < 2:
        return ""
    (least, title), (most, other) = min(ends), max(ends)
    return (
        f"At the last step the risks of the training domains are closest in “{title}” (mean MMD² "
        f"{number(least)}) and furthest apart in “{other}” ({number(most)})."
    )


def worst_domain(run: Mapping[str, Any]) -> str:
    """Which training domain has the highest mean risk at the end, and how often it had it."""
    worst = [name for name in run["curves"]["worst"] if name]
    if not worst:
        return ""
    last, times = worst[-1], Counter(worst)
    often = f"{times[last]} of {len(worst)} evaluations"
    return f"The worst training domain at the end is “{last}”; it was worst in {often}."


def worst_at_the_end(runs: Sequence[Mapping[str, Any]]) -> str:
    """Which training domain most of several runs leave with the highest mean risk."""
    ends = Counter(worst[-1] for run in runs if (worst := run["curves"]["worst"]) and worst[-1])
    if not ends:
        return ""
    name, times = ends.most_common(1)[0]
    often = f"{times} of {sum(ends.values())} do"
    return f"The training domain that most runs leave worst is “{name}”: {often}."


def matching(run: Mapping[str, Any]) -> str:
    """How far apart the risks of the training domains are, at the first and at the last step."""
    shots = run["snapshots"]
    if not shots:
        return ""
    last, p = _apart(shots[-1], run["training_domains"])
    if not last:
        return ""
    first, _ = _apart(shots[0], run["training_domains"])
    told = sum(value < LEVEL for value in p)
    test = f"; {told} of {len(p)} pairs can still be told apart (p < {LEVEL})" if p else ""
    after, before = fmean(last), fmean(first) if first else None
    if before is None or len(shots) == 1:
        return f"The mean MMD² between training domains is {number(after)}{test}."
    where = f"from {number(before)} at step {shots[0]['step']} to {number(after)} at step"
    if number(before) == number(after):  # a direction that the printed numbers do not show
        return f"The mean MMD² between training domains stayed at {number(after)}{test}."
    moved, verb = ("closer together", "fell") if after < before else ("further apart", "rose")
    return (
        f"The risks of the training domains moved {moved}: their mean MMD² {verb} {where} "
        f"{shots[-1]['step']}{test}."
    )


def difference(comparison: Mapping[str, Any] | None) -> str:
    """How a method does against the one it is compared with.

    Of several methods, the one whose confidence interval begins highest: the surest gain.
    """
    found = [d for d in (comparison or {}).get("differences", []) if d["mean"] is not None]
    if not found:
        return ""
    sure = [d for d in found if d["low"] is not None and d["high"] is not None]
    best = max(sure or found, key=lambda d: d["low"] if sure else d["mean"])
    side = "above" if best["mean"] >= 0 else "below"
    pairs = f"{best['pairs']} pair" + "s" * (best["pairs"] != 1)
    if not sure:
        interval = f"with {pairs} there is no interval"
    else:
        clear = "excludes" if best["low"] > 0 or best["high"] < 0 else "includes"
        ends = f"{number(best['low'])} to {number(best['high'])}"
        interval = f"the 95 % interval, {ends} over {pairs}, {clear} zero"
    return (
        f"On the test domains {best['method']} is {number(abs(best['mean']))} points {side} "
        f"{best['against']}; {interval}."
    )


def spells(run: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The domains that were ever worst with the number of evaluations at which they were.

    Example:
        >>> spells({"curves": {"worst": ["a", "b", "b"]}})
        [('b', 2), ('a', 1)]
    """
    return Counter(name for name in run["curves"]["worst"] if name).most_common()


def _apart(shot: Mapping[str, Any], names: Sequence[str]) -> tuple[list[float], list[float]]:
    """MMD² of every pair of these domains in a snapshot, and the p-values that there are."""
    mmd = shot["mmd"] or {"domains": []}
    places = [place for place, name in enumerate(mmd["domains"]) if name in names]
    pairs = list(combinations(places, 2))
    values, p = (
        ([mmd[key][i][j] for i, j in pairs] for key in ("value", "p")) if pairs else ([], [])
    )
    return [v for v in values if v is not None], [v for v in p if v is not None]
