"""Figures over the steps of runs (metric, terms, worst domain, L and L̂), and over λ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from riskmatch.metrics import MetricFacts
from riskmatch.report.density import Array, finite_risks
from riskmatch.report.facts import SETTINGS
from riskmatch.report.figures.plot import Bands, Curve, Lines
from riskmatch.report.figures.risks import (
    TEST,
    NoPredictions,
    Runs,
    all_domains,
    domain_styles,
    note_on,
)
from riskmatch.report.selected import select
from riskmatch.report.style import BLACK, BLUE, DASHED, VERMILION, LineStyle, line_styles
from riskmatch.report.tables import Trials, capitalised
from riskmatch.report.titles import DATA, data_title, in_order, part_titles, setup_of_frame
from riskmatch.runs import predictions
from riskmatch.runs.config import acts_from
from riskmatch.runs.frame import Results, metrics_of
from riskmatch.runs.lines import Split
from riskmatch.runs.predictions import ByDomain
from riskmatch.runs.records import StoredRun
from riskmatch.runs.task import metric_facts
from riskmatch.selection import RULES, recorded_metric

if TYPE_CHECKING:
    import pandas as pd

STEP = "step"
LOSS = "loss"
_START = " Vertical line: the method starts to act."
_STRONG, _DASHED = LineStyle(VERMILION, width=1.8), LineStyle(BLUE, DASHED)
VARIED = {"weight": "matching coefficient λ", "batch_size": "batch size per domain"}
"""Hyper-parameters that can be varied, with their labels."""
_GROUP = ["data", "variant", "model"]
_COLUMNS = {"weight": "hparams/weight", "batch_size": "batch_size"}

Series = Mapping[str, Mapping[str, list[float]]]
"""One value per evaluation, by panel title and label."""


def curves(runs: Runs, metric: str | None = None) -> Lines:
    """A metric on validation samples of training domains and the reported part of test domains.

    Args:
        runs: runs by panel title.
        metric: its name; None is the primary metric of the runs.
    """
    tasks = [run.record.task for run in runs.values()]
    name = metric or tasks[0].primary
    facts = metric_facts(name, *(task.metrics for task in tasks))
    series = {title: _values(run, name, facts) for title, run in runs.items()}
    panels = _panels(runs, series, domain_styles(series, all_domains(runs)))
    configs = [run.config for run in runs.values()]
    parts = dict.fromkeys(part_titles(c.data, c.data_options)["train"] for c in configs)
    starts = _starts(runs)
    note = (
        f"Test domains: {' or '.join(parts)}, as in tables; training domains: validation samples. "
        f"{note_on(runs)}{_START * bool(starts)}"
    )
    title = f"{capitalised(facts.title)} by domain during training"
    return Lines(title, STEP, note, panels, _axis(facts), marks=starts)


def _axis(facts: MetricFacts) -> str:
    """The label of an axis of a metric."""
    return facts.title + ", %" * facts.percent


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
        "L̂: the worst domain and the pool": (_STRONG, "train", 1),
        "L: every domain and the pool": (_DASHED, "train", 0),
    }
    return _matching_lines(title, runs, lines, start)


def matching(runs: Runs, start: int = 0) -> Lines:
    """L̂ on training and on validation samples, from step ``start`` on."""
    lines: dict[str, tuple[LineStyle, Split, int]] = {
        "training samples": (_DASHED, "train", 1),
        "validation samples": (_STRONG, "val", 1),
    }
    return _matching_lines("Matching loss L̂ during training", runs, lines, start)


def _matching_lines(
    title: str, runs: Runs, lines: Mapping[str, tuple[LineStyle, Split, int]], start: int
) -> Lines:
    """Lines by label: style, part of the samples, and 0 for L or 1 for L̂."""
    panels, splits = {}, {split for _, split, _ in lines.values()}
    for name, run in runs.items():
        steps = [step for step in prediction_steps(run) if step >= start]
        losses = []
        for step in steps:
            by_domain, tests = predictions.read(run.folder, step), run.config.test_domains
            losses.append({s: matching_losses(training_risks(by_domain, tests, s)) for s in splits})
        panels[name] = [
            Curve(label, steps, [loss[split][place] for loss in losses], style)
            for label, (style, split, place) in lines.items()
        ]
    marks = {name: step for name, step in _starts(runs).items() if step > start}
    note = note_on(runs) + _START * bool(marks)
    return Lines(title, STEP, note, panels, "squared MMD, log scale", log=True, marks=marks)


def prediction_steps(run: StoredRun) -> tuple[int, ...]:
    """Steps with stored predictions.

    Raises:
        NoPredictions: there are none.
    """
    steps = predictions.steps(run.folder)
    if not steps:
        raise NoPredictions(
            f"{run.folder} holds no predictions, which riskmatch sweep does not store: train this "
            "run again in another folder, with riskmatch train."
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


def _values(run: StoredRun, metric: str, facts: MetricFacts) -> dict[str, list[float]]:
    lines = {}
    for domain in run.record.domains:
        test = domain in run.config.test_domains
        scores = [evaluation.scores.get(domain, {}) for evaluation in run.record.evaluations]
        reported = (s.get("train" if test else "val") or s.get("train") for s in scores)
        values = (s.metrics.get(metric, math.nan) if s else math.nan for s in reported)
        lines[domain + TEST * test] = [facts.scale * value for value in values]
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


def training_risks(by_domain: ByDomain, tests: Sequence[str], split: Split) -> list[Array]:
    """Finite risks of every training domain that has samples of a split."""
    training = (splits for domain, splits in by_domain.items() if domain not in tests)
    return [finite_risks(splits[split]) for splits in training if split in splits]


def ablation(frame: pd.DataFrame, metric: str | None = None) -> Lines:
    """A metric averaged over test domains, against the hyper-parameter that differs.

    Methods whose runs do not differ in it are left out.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
        metric: name of the metric; None is the primary metric of the runs.
    """
    groups = frame.groupby(_GROUP)
    for name, column in _COLUMNS.items():
        varied = frame[groups[column].transform("nunique") > 1] if column in frame else frame[:0]
        if varied.empty:
            continue
        if others := _other_differences(varied, column):
            raise ValueError(
                f"These runs differ in {', '.join(others)} besides {name}; give runs that do not."
            )
        return ablation_plot(varied, name, metric)
    raise ValueError(
        f"Of each method, these runs have the same {' and '.join(VARIED)}; give runs of one method "
        "that differ in one of them."
    )


def ablation_plot(frame: pd.DataFrame, name: str, metric: str | None = None) -> Lines:
    """A metric against the hyper-parameter ``name``: one panel per data set, one line per method.

    The step is chosen by train-val among the evaluations after the warm-up, because all runs are
    equal before. Error bars are standard errors over trials, where every value has several.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
        name: a name of :data:`VARIED`.
        metric: name of the metric; None is the primary metric of the runs.
    """
    metric = recorded_metric(frame.drop_duplicates("run"), frame, metric)
    facts, lines = metrics_of(frame)[metric], _values_by_setting(frame, _COLUMNS[name], metric)
    panels = {}
    for data in in_order(set(lines), DATA):
        styles = line_styles(lines[data])
        panels[data_title(data)] = [
            Curve(
                label,
                list(by_value),
                [trials.mean or 0.0 for trials in by_value.values()],
                styles[label],
                _errors(by_value.values()),
            )
            for label, by_value in lines[data].items()
        ]
    bars = any(curve.sd for curves in panels.values() for curve in curves)
    caption = (
        f"Averages over test domains{' ± standard error over trials of these' if bars else ''}. "
        f"Step: the one with the best mean validation {facts.title} of the training domains "
        "(train-val) after the warm-up."
    )
    return Lines(
        f"{capitalised(facts.title)} against the {VARIED[name]}",
        VARIED[name],
        f"{caption} {setup_of_frame(frame)}",
        panels,
        _axis(facts),
        points=True,
        sharey=False,
    )


def _errors(values: Iterable[Trials]) -> list[float] | None:
    """Standard errors; None if a value has a single trial."""
    errors = [trials.error for trials in values]
    known = [error for error in errors if error is not None]
    return known if len(known) == len(errors) else None


def _other_differences(frame: pd.DataFrame, varied: str) -> list[str]:
    """Settings other than ``varied`` in which runs of one method on one data set differ."""
    settings = [*SETTINGS, *(name for name in frame if str(name).startswith("hparams/"))]
    groups = frame.groupby(_GROUP)
    return [
        str(name).removeprefix("hparams/")
        for name in settings
        if name != varied and (groups[str(name)].nunique() > 1).any()
    ]


def _values_by_setting(
    frame: pd.DataFrame, column: str, metric: str
) -> dict[str, dict[str, dict[float, Trials]]]:
    """The metric of the trials, by data set, method and value of the hyper-parameter."""
    rule = replace(RULES["train-val"], after_warmup=True)
    lines: dict[str, dict[str, dict[float, Trials]]] = {}
    for value, rows in frame.groupby(column):
        results = Results(rows.drop_duplicates("run"), rows)
        for data, selected in select(results, rule, metric).items():
            for key in selected.rows:
                if trials := selected.by_trial(key):
                    by_label = lines.setdefault(data, {}).setdefault(selected.label(*key), {})
                    by_label[float(str(value))] = Trials(trials)
    return lines
