"""Runs over their steps: accuracy, the terms of the loss, which domain was worst."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from riskmatch.report.figures.curves import Curve
from riskmatch.report.figures.on_file import Runs, about_runs
from riskmatch.report.figures.plot import Bands, Lines
from riskmatch.report.figures.risks import TEST
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.style import BLACK, Look, looks
from riskmatch.runs.records import Evaluation
from riskmatch.selection import domains_of

STEP = "step"
LOSS = "loss"


def accuracies(runs: Runs) -> Lines:
    """The accuracy on every domain: validation samples of training domains, all of test domains."""
    named = {title: _accuracies(run) for title, run in runs.items()}
    labels = [label for lines in named.values() for label in lines]
    shown = looks(labels, [label for label in labels if label.endswith(TEST)])
    return Lines(
        "Accuracy by domain during training",
        STEP,
        about_runs(runs),
        _panels(runs, named, shown),
        "accuracy, %",
    )


def terms(runs: Runs) -> Lines:
    """The loss, its terms and the unweighted penalties, of the batch of the step."""
    named = {title: _terms(run) for title, run in runs.items()}
    shown = looks(label for lines in named.values() for label in lines if label != LOSS)
    shown[LOSS] = Look(BLACK, width=1.8)
    values = [y for lines in named.values() for line in lines.values() for y in line]
    positive = all(not y <= 0 for y in values)  # NaN where a term was not there yet
    return Lines(
        "The loss and its terms, on the batch of a step",
        STEP,
        about_runs(runs),
        _panels(runs, named, shown),
        "value, log scale" if positive else "value",
        log=positive,
    )


def worst(runs: Runs) -> Bands:
    """Which training domain had the largest mean risk, from one evaluation to the next."""
    panels = {title: _spans(run) for title, run in runs.items()}
    return Bands("The training domain with the largest mean risk", STEP, about_runs(runs), panels)


Named = Mapping[str, Mapping[str, list[float]]]
"""By run and by label, a value for each evaluation."""


def _panels(runs: Runs, named: Named, shown: Mapping[str, Look]) -> dict[str, list[Curve]]:
    found = {}
    for title, lines in named.items():
        steps = [evaluation.step for evaluation in runs[title].record.evaluations]
        found[title] = [Curve(label, steps, y, shown[label]) for label, y in lines.items()]
    return found


def _accuracies(run: RunOnFile) -> dict[str, list[float]]:
    found = {}
    for domain in domains_of(run.record):
        test = domain in run.config.test_domains
        found[domain + TEST * test] = [
            100 * _accuracy(evaluation, domain, test) for evaluation in run.record.evaluations
        ]
    return found


def _accuracy(evaluation: Evaluation, domain: str, test: bool) -> float:
    splits = evaluation.scores.get(domain, {})
    split = splits.get("train" if test else "val") or splits.get("train")
    return split.accuracy if split else float("nan")


def _terms(run: RunOnFile) -> dict[str, list[float]]:
    """By label; NaN where an evaluation has no such term. A single term is the loss itself."""
    rows = [
        {
            LOSS: evaluation.loss,
            **(evaluation.terms if len(evaluation.terms) > 1 else {}),
            **{f"{name}, unweighted": value for name, value in evaluation.raw.items()},
        }
        for evaluation in run.record.evaluations
    ]
    labels = dict.fromkeys(label for row in rows for label in row)
    return {label: [row.get(label, float("nan")) for row in rows] for label in labels}


def _spans(run: RunOnFile) -> dict[str, list[tuple[float, float]]]:
    training = [d for d in domains_of(run.record) if d not in run.config.test_domains]
    spans: dict[str, list[tuple[float, float]]] = {domain: [] for domain in training}
    begin = 0.0
    for domain, group in groupby(run.record.evaluations, lambda found: found.worst_domain):
        end = float(list(group)[-1].step)
        spans.setdefault(domain, []).append((begin, end))
        begin = end
    return spans
