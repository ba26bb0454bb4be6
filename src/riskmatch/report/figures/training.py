"""Figures over the steps of runs: accuracy, loss terms, worst domain, matching losses L and L̂."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from riskmatch.report.density import Array, finite_risks
from riskmatch.report.figures.plot import Bands, Curve, Lines
from riskmatch.report.figures.risks import (
    TEST,
    NoPredictions,
    Runs,
    all_domains,
    domain_styles,
    note_on,
)
from riskmatch.report.style import BLACK, BLUE, DASHED, VERMILION, LineStyle, line_styles
from riskmatch.report.titles import part_titles
from riskmatch.runs import predictions
from riskmatch.runs.config import acts_from
from riskmatch.runs.records import StoredRun
from riskmatch.runs.scores import Split

STEP = "step"
LOSS = "loss"
VARIANCE, WORST = "L: every domain and the pool", "L̂: the worst domain and the pool"
SPLITS: dict[Split, tuple[str, LineStyle]] = {
    "train": ("training samples", LineStyle(BLUE, DASHED)),
    "val": ("validation samples", LineStyle(VERMILION, width=1.8)),
}
_START = " Vertical line: the method starts to act."
MMD_LABEL = "squared MMD, log scale"

Series = Mapping[str, Mapping[str, list[float]]]
"""One value per evaluation, by panel title and label."""


def accuracies(runs: Runs) -> Lines:
    """Accuracy on validation samples of training domains and the reported part of test domains."""
    series = {title: _accuracies(run) for title, run in runs.items()}
    panels = _panels(runs, series, domain_styles(series, all_domains(runs)))
    parts = dict.fromkeys(part_titles(run.config.data)["train"] for run in runs.values())
    starts = _starts(runs)
    note = (
        f"Test domains: {' or '.join(parts)}, as in tables; training domains: validation samples. "
        f"{note_on(runs)}{_START * bool(starts)}"
    )
    title = "Accuracy by domain during training"
    return Lines(title, STEP, note, panels, "accuracy, %", marks=starts)


def terms(runs: Runs) -> Lines:
    """Loss, its terms and the unweighted penalties, on the batch of a step."""
    series = {title: _terms(run) for title, run in runs.items()}
    styles = line_styles(label for panel in series.values() for label in panel if label != LOSS)
    styles[LOSS] = LineStyle(BLACK, width=1.8)
    values = [y for panel in series.values() for line in panel.values() for y in line]
    positive = all(not y <= 0 for y in values)  # NaN before a term is switched on
    starts = _starts(runs)
    return Lines(
        "Loss and its terms, on the batch of a step",
        STEP,
        note_on(runs) + _START * bool(starts),
        _panels(runs, series, styles),
        "value, log scale" if positive else "value",
        log=positive,
        marks=starts,
    )


def worst_domains(runs: Runs) -> Bands:
    """Training domain with the largest mean risk, from one evaluation to the next."""
    panels = {title: _worst_spans(run) for title, run in runs.items()}
    styles = domain_styles(panels, all_domains(runs))
    return Bands("Training domain with the largest mean risk", STEP, note_on(runs), panels, styles)


def gap(runs: Runs, start: int = 0) -> Lines:
    """L and L̂ on the training samples, from step ``start`` on."""
    title = "Distributional variance L and its surrogate L̂ during training"
    lines: dict[str, tuple[LineStyle, Split, int]] = {
        WORST: (LineStyle(VERMILION, width=1.8), "train", 1),
        VARIANCE: (LineStyle(BLUE, DASHED), "train", 0),
    }
    return _matching_lines(title, runs, lines, start)


def matching(runs: Runs, start: int = 0) -> Lines:
    """L̂ on training and on validation samples, from step ``start`` on."""
    lines = {label: (style, split, 1) for split, (label, style) in SPLITS.items()}
    return _matching_lines("Matching loss L̂ during training", runs, lines, start)


def _matching_lines(
    title: str, runs: Runs, lines: Mapping[str, tuple[LineStyle, Split, int]], start: int
) -> Lines:
    """Lines by label: style, part of the samples, and 0 for L or 1 for L̂."""
    panels = {}
    for name, run in runs.items():
        steps = [step for step in prediction_steps(run) if step >= start]
        losses = {
            split: [matching_losses(_training_risks(run, step, split)) for step in steps]
            for split in {split for _, split, _ in lines.values()}
        }
        panels[name] = [
            Curve(label, steps, [loss[place] for loss in losses[split]], style)
            for label, (style, split, place) in lines.items()
        ]
    marks = {name: step for name, step in _starts(runs).items() if step > start}
    note = note_on(runs) + _START * bool(marks)
    return Lines(title, STEP, note, panels, MMD_LABEL, log=True, marks=marks)


def prediction_steps(run: StoredRun) -> tuple[int, ...]:
    """Steps with stored predictions.

    Raises:
        NoPredictions: there are none.
    """
    steps = predictions.steps(run.folder)
    if not steps:
        raise NoPredictions(
            f"{run.folder} holds no predictions, which this figure needs at every evaluation. "
            "riskmatch train and riskmatch reproduce store them, riskmatch sweep does not: train "
            "this run again in another folder."
        )
    return steps


def matching_losses(samples: Sequence[Array]) -> tuple[float, float]:
    """L and L̂ of the risks of several domains, with squared MMD and the kernel of training.

    Example:
        >>> variance, worst = matching_losses([np.array([0.1]), np.array([0.2]), np.array([3.0])])
        >>> worst > variance  # the worst domain is the furthest from the pool
        True
    """
    import torch

    from riskmatch.matching import risk_matching_penalty

    risks = torch.from_numpy(np.concatenate(samples))
    domains = torch.arange(len(samples)).repeat_interleave(torch.tensor([*map(len, samples)]))
    variance = risk_matching_penalty(risks, domains, match="variance")
    worst = risk_matching_penalty(risks, domains, match="worst")
    return variance.item(), worst.item()


def _starts(runs: Runs) -> dict[str, float]:
    """Step at which the warm-up of each run ends, if its warm-up ends."""
    starts = {title: acts_from(run.config) for title, run in runs.items()}
    return {title: float(start) for title, start in starts.items() if start}


def _panels(runs: Runs, series: Series, styles: Mapping[str, LineStyle]) -> dict[str, list[Curve]]:
    panels = {}
    for title, lines in series.items():
        steps = [evaluation.step for evaluation in runs[title].record.evaluations]
        panels[title] = [Curve(label, steps, y, styles[label]) for label, y in lines.items()]
    return panels


def _accuracies(run: StoredRun) -> dict[str, list[float]]:
    lines = {}
    for domain in run.record.domains:
        test = domain in run.config.test_domains
        scores = [evaluation.scores.get(domain, {}) for evaluation in run.record.evaluations]
        reported = (s.get("train" if test else "val") or s.get("train") for s in scores)
        lines[domain + TEST * test] = [100 * s.accuracy if s else float("nan") for s in reported]
    return lines


def _terms(run: StoredRun) -> dict[str, list[float]]:
    """Values by label, NaN where an evaluation lacks a term. A single term equals the loss."""
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


def _worst_spans(run: StoredRun) -> dict[str, list[tuple[float, float]]]:
    training = [d for d in run.record.domains if d not in run.config.test_domains]
    spans: dict[str, list[tuple[float, float]]] = {domain: [] for domain in training}
    start = 0.0
    for domain, group in groupby(run.record.evaluations, lambda e: e.worst_domain):
        end = float(list(group)[-1].step)
        if domain:
            spans.setdefault(domain, []).append((start, end))
        start = end
    return spans


def _training_risks(run: StoredRun, step: int, split: Split) -> list[Array]:
    """Risks of every training domain."""
    by_domain = predictions.read(run.folder, step)
    training = (by_domain[name] for name in by_domain if name not in run.config.test_domains)
    return [finite_risks(splits[split]) for splits in training]
