"""Tables and texts about single runs on a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean
from typing import Any

from riskmatch.metrics import ACCURACY
from riskmatch.report.page import MANY
from riskmatch.report.published import Published
from riskmatch.report.tables import Amount, Cell, Column, Spread, Table, format_cell, number

NO_CLASSES = {
    "regression": "a regression has no classes",
    "multi-label": "samples have tags, not one class each",
}
"""Why a run has no confusion and calibration, by its task."""
LEVEL = 0.05
"""Significance level of the permutation test."""


def number_in(cell: Cell) -> float | None:
    """The number by which a cell is sorted; None of text."""
    if isinstance(cell, Spread | Published):
        return cell.mean
    value = cell.value if isinstance(cell, Amount) else cell
    return None if isinstance(value, str | bool) else value


def runs_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Of each run in detail its worst training domain, and how close training domains are.

    Distributions of a lost network that meet are no success, so that their distances are left out.
    """

    def at_end(run: Mapping[str, Any]) -> str | None:
        worst = [name for name in run["curves"]["worst"] if name]
        return f"{worst[-1]} ({worst.count(worst[-1])} of {len(worst)})" if worst else None

    def distance(run: Mapping[str, Any], place: int) -> Amount | None:
        values, _ = _pair_distances(run, place)
        return Amount(fmean(values)) if values else None

    def differing(run: Mapping[str, Any]) -> str | None:
        _, p_values = _pair_distances(run, -1)
        return f"{sum(p < LEVEL for p in p_values)} of {len(p_values)}" if p_values else None

    return Table.of(
        "Worst training domain at the end, with the number of evaluations in which it was worst; "
        "mean MMD² between the risks of training domains, at the first and the last step that is "
        f"stored; pairs of these domains that differ at the last (p < {LEVEL}).",
        [
            Column("run", lambda run: run["title"]),
            Column("worst domain", at_end, optional=True),
            Column("MMD² at first", lambda run: distance(run, 0), optional=True),
            Column("MMD² at last", lambda run: distance(run, -1), optional=True),
            Column("pairs that differ", differing, optional=True),
        ],
        runs,
    )


def _pair_distances(run: Mapping[str, Any], place: int) -> tuple[list[float], list[float]]:
    """MMD² of all pairs of training domains in a snapshot, and their p-values, where known."""
    mmd = run["snapshots"][place]["mmd"] if run["snapshots"] and not run["lost"] else {}
    named = enumerate(mmd.get("domains", ()))
    pairs = list(combinations([k for k, name in named if name in run["training_domains"]], 2))
    values, p = ([mmd[key][i][j] for i, j in pairs] for key in ("value", "p"))
    return [v for v in values if v is not None], [v for v in p if v is not None]


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
    no_classes = no_predictions or NO_CLASSES.get(run["task"], "the task has no classes")
    one_step = "predictions of one step alone are stored; riskmatch train stores those of all"
    content: dict[str, tuple[Any, str]] = {
        "risks": (run["snapshots"], no_predictions),
        "mmd": (run["snapshots"], no_predictions),
        "worst": (worst_counts(run), no_steps or "the record does not name it"),
        "curves": (run["curves"]["steps"], no_steps),
        "terms": (run["curves"]["steps"], no_steps),
        "matching": (run["matching"]["steps"], no_predictions or one_step),
        "confusion": (run["confusion"], no_classes),
        "calibration": (run["calibration"], no_classes),
        "hardest": (run["hardest"], no_predictions),
        "configuration": (run["config"], "the record holds no configuration"),
        "reproduce": (
            run["reproduce"],
            "the run was imported, used objects passed in Python, or a part of it is unknown",
        ),
    }
    return {id: reason for id, (present, reason) in content.items() if not present}


def domains_of(run: Mapping[str, Any]) -> list[str]:
    """All domains of a run: those of the data set in its order, then any others."""
    parts = (run["curves"]["metric"], run["confusion"], run["calibration"], run["hardest"])
    others = (name for part in parts for name in part)
    named = [*run["domains"], *run["training_domains"], *run["test_domains"]]
    return list(dict.fromkeys([*named, *others]))


def scores_table(run: Mapping[str, Any], metric: Mapping[str, Any]) -> Table:
    """Scores of each domain, at the chosen step if there is one.

    The ``metric`` of a test domain on the first part of its samples is that of the headline. Counts
    of right samples are added where one is more than 0.1 points.
    """
    curves, chosen = run["curves"], run["chosen_step"]
    place = curves["steps"].index(chosen) if chosen in curves["steps"] else -1

    def at_step(score: str, domain: str, part: str) -> float | None:
        values: list[float | None] = curves[score].get(domain, {}).get(part) or [None]
        return values[place]

    def value(domain: str, part: str) -> Cell:
        share, n = at_step("metric", domain, part), run["sizes"].get(domain, {}).get(part)
        if not metric["percent"]:
            return number(share, metric["decimals"])
        few = share is not None and n is not None and n < MANY and metric["name"] == ACCURACY
        return percent(share) + (f" ({round(share * n)} of {n})" if few else "")

    parts = run["parts_of_domains"]
    titles = [title.replace(" ", "\N{NO-BREAK SPACE}") for title in parts.values()]
    values = [f"{metric['title']}, {title}{' (%)' * metric['percent']}" for title in titles]
    columns = ("domain", "used for", *values, *(f"mean risk, {title}" for title in titles))
    rows = list[tuple[Cell, ...]]()
    for domain in domains_of(run):
        risks = (Amount(at_step("risk", domain, part)) for part in parts)
        used = "test" if domain in run["test_domains"] else "training"
        rows.append((domain, used, *(value(domain, part) for part in parts), *risks))
    step = curves["steps"][place] if curves["steps"] else ""
    caption = f"Scores at step {step}" + ", the chosen one" * (place >= 0)
    return Table(caption, columns, tuple(rows))


def sample_count(samples: Mapping[str, Any]) -> str:
    """Number of samples that are shown of a domain, and how many are classified correctly.

    Example:
        >>> sample_count({"n": 157, "correct": 150, "of": 157})
        '150 of 157 samples right, 95.5 %'
        >>> sample_count({"n": 5000, "correct": 4000, "of": 10000})
        '4000 of 5000 samples (of 10000) right, 80.0 %'
        >>> sample_count({"n": 157, "correct": None, "of": None})
        '157 samples'
    """
    n, correct, of = samples["n"], samples["correct"], samples["of"]
    some = f" (of {of})" if of is not None and of > n else ""
    if correct is None:
        return f"{n} samples{some}"
    return f"{correct} of {n} samples{some} right, {percent(correct / n if n else None)} %"


def hardest_table(domain: str, examples: Sequence[Mapping[str, Any]]) -> Table:
    """The hardest samples of a domain without pictures.

    Example:
        >>> example = {"name": "3", "risk": 7.5, "label": "yes", "predicted": "no"}
        >>> example |= {"confidence": 0.99, "thumbnail": None, "row": {"age": "31"}}
        >>> table = hardest_table("here", [example])
        >>> table.columns
        ('sample', 'risk', 'label', 'predicted', 'confidence (%)', 'age')
    """

    def feature(name: str) -> Column:
        return Column(name, lambda example: (example["row"] or {}).get(name))

    features = dict.fromkeys(name for example in examples for name in example["row"] or {})
    return Table.of(
        f"Samples of {domain[:60]} with the largest risk",
        [
            Column("sample", itemgetter("name")),
            Column("risk", lambda example: Amount(example["risk"])),
            Column("label", itemgetter("label")),
            Column("predicted", itemgetter("predicted")),
            Column("confidence (%)", lambda example: percent(example["confidence"]), "", True),
            *map(feature, features),
        ],
        examples,
    )


def settings_table(values: Mapping[str, Any], caption: str = "Settings") -> Table:
    """Names and values of all settings; names inside a mapping are dotted.

    Example:
        >>> settings_table({"lr": 1e-05, "hparams": {"weight": 5.0}, "data_options": {}}).rows
        (('lr', '1e-05'), ('hparams.weight', '5.0'), ('data_options', '{}'))
    """

    def flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
        for name, value in values.items():
            if isinstance(value, Mapping) and value:
                yield from flat(value, f"{prefix}{name}.")
            else:
                yield prefix + name, value if isinstance(value, str) else json.dumps(value)

    columns = [Column("name", itemgetter(0)), Column("value", itemgetter(1))]
    return Table.of(caption, columns, flat(values, ""))


def percent(fraction: float | None) -> str:
    """A fraction in per cent."""
    return format_cell(None if fraction is None else 100 * fraction)
