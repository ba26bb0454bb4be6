"""Summary sentences of a report: the worst domain, and whether matching worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from riskmatch.report.html.tables import text

LEVEL = 0.05
"""Significance level of the permutation test."""


def summary(data: Mapping[str, Any]) -> list[str]:
    """At most two sentences, after what there is to say against single runs.

    For a single run: its worst domain, and how the distance between training domains changed. For
    several, below the verdict: the runs with the closest domains, and the most frequent worst one.
    """
    runs = data["runs"]
    if len(runs) == 1:
        sentences = [worst_domain(runs[0]), distance_change(runs[0])]
    else:
        sentences = [closest_run(runs), common_worst(runs)]
    warnings = [
        line if len(runs) == 1 else f"“{run['title']}”: {line}"
        for run in runs
        for line in run["findings"]
    ]
    return [*warnings, *filter(None, sentences)] or [
        "These records hold too few evaluations for a summary."
    ]


def closest_run(runs: Sequence[Mapping[str, Any]]) -> str:
    """The runs with the smallest and the largest distance between training domains at the end.

    Lost networks do not count. Empty where runs have different training domains, whose distances
    do not compare.
    """
    if any(run["training_domains"] != runs[0]["training_domains"] for run in runs):
        return ""
    distances = [
        (fmean(values), run["title"])
        for run in runs
        if run["snapshots"]
        and not run["lost"]
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
    """The training domain that is worst at the end of most of the runs shown in detail."""
    last = Counter(worst[-1] for run in runs if (worst := run["curves"]["worst"]) and worst[-1])
    if not last:
        return ""
    name, count = last.most_common(1)[0]
    total = sum(last.values())
    end = "ends" if count == 1 else "end"
    return (
        f"{count} of the {total} runs in detail {end} with “{name}” as the worst training domain."
    )


def distance_change(run: Mapping[str, Any]) -> str:
    """Mean MMD² between training domains at the first and at the last step.

    Empty where the network is lost: distributions that meet for that reason are no success.
    """
    snapshots = run["snapshots"]
    if not snapshots or run["lost"]:
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


def worst_counts(run: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Domains that were worst, with the number of evaluations in which they were.

    Example:
        >>> worst_counts({"curves": {"worst": ["a", "b", "b"]}})
        [('b', 2), ('a', 1)]
    """
    return Counter(name for name in run["curves"]["worst"] if name).most_common()


def absent_sections(run: Mapping[str, Any]) -> dict[str, str]:
    """Sections of a run without content, by id, each with the reason."""
    no_predictions = run["no_predictions"]
    no_steps = "" if run["curves"]["steps"] else "the run has no evaluation yet"
    no_classes = no_predictions or "a regression has no classes"
    content: dict[str, tuple[Any, str]] = {
        "risks": (run["snapshots"], no_predictions),
        "mmd": (run["snapshots"], no_predictions),
        "worst": (worst_counts(run), no_steps or "the record does not name it"),
        "curves": (run["curves"]["steps"], no_steps),
        "terms": (run["curves"]["steps"], no_steps),
        "matching": (
            run["matching"]["steps"],
            no_predictions
            or "predictions of one step alone are stored; riskmatch train stores those of all",
        ),
        "confusion": (run["confusion"], no_classes),
        "calibration": (run["calibration"], no_classes),
        "hardest": (run["hardest"], no_classes),
        "configuration": (run["config"], "the record holds no configuration"),
        "reproduce": (
            run["reproduce"],
            "the run was imported, used objects passed in Python, or a part of it is unknown",
        ),
    }
    return {id: reason for id, (present, reason) in content.items() if not present}


def _pair_distances(
    snapshot: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[float], list[float]]:
    """MMD² of all pairs of the named domains, and their p-values, where known."""
    mmd = snapshot["mmd"] or {"domains": []}
    places = [place for place, name in enumerate(mmd["domains"]) if name in names]
    pairs = list(combinations(places, 2))
    values, p = ([mmd[key][i][j] for i, j in pairs] for key in ("value", "p"))
    return [v for v in values if v is not None], [v for v in p if v is not None]
