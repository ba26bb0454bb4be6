"""Figure of accuracy against one hyper-parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from riskmatch.report import titles
from riskmatch.report.facts import SETTINGS
from riskmatch.report.figures.plot import Curve, Lines
from riskmatch.report.style import line_styles
from riskmatch.report.tables import Trials
from riskmatch.report.titles import data_title, setup_of_frame

if TYPE_CHECKING:
    import pandas as pd

VARIED = {"weight": "matching coefficient λ", "batch_size": "batch size per domain"}
"""Hyper-parameters that can be varied, with their labels."""
_GROUP = ["data", "variant", "model"]
_COLUMNS = {"weight": "hparams/weight", "batch_size": "batch_size"}


def ablation(frame: pd.DataFrame) -> Lines:
    """Accuracy averaged over test domains, against the hyper-parameter that differs.

    Methods whose runs do not differ in it are left out.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
    """
    groups = frame.groupby(_GROUP)
    for name, column in _COLUMNS.items():
        varied = frame[groups[column].transform("nunique") > 1] if column in frame else frame[:0]
        if varied.empty:
            continue
        if others := _other_differences(varied, column):
            raise ValueError(
                f"These runs differ in {', '.join(others)} besides {name}, so their accuracies do "
                f"not show the effect of {name}; give runs that differ in {name} alone."
            )
        return ablation_plot(varied, name)
    raise ValueError(
        f"Of each method, these runs have the same {' and '.join(VARIED)}; give runs of one method "
        "that differ in one of them."
    )


def ablation_plot(frame: pd.DataFrame, name: str) -> Lines:
    """Accuracy against the hyper-parameter ``name``: one panel per data set, one line per method.

    The step is chosen by train-val among the evaluations after the warm-up, because all runs are
    equal before. Error bars are standard errors over trials, where every value has several.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
        name: a name of :data:`VARIED`.
    """
    lines = _lines(frame, _COLUMNS[name])
    panels = {}
    for data in titles.in_order(set(lines), titles.DATA):
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
        f"Averages over test domains{' ± standard error over trials' if bars else ''}. Step: the "
        "one with the best mean validation accuracy of the training domains (train-val) after the "
        "warm-up."
    )
    return Lines(
        f"Accuracy against the {VARIED[name]}",
        VARIED[name],
        f"{caption} {setup_of_frame(frame)}",
        panels,
        "accuracy, %",
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


def _lines(frame: pd.DataFrame, column: str) -> dict[str, dict[str, dict[float, Trials]]]:
    """Accuracies of the trials, by data set, method and value of the hyper-parameter."""
    from riskmatch.report.selected import select
    from riskmatch.runs.frame import Results
    from riskmatch.selection import RULES

    rule = replace(RULES["train-val"], after_warmup=True)
    lines: dict[str, dict[str, dict[float, Trials]]] = {}
    for value, rows in frame.groupby(column):
        results = Results(rows.drop_duplicates("run"), rows)
        for data, selected in select(results, rule).items():
            for key in selected.rows:
                if trials := selected.by_trial(key):
                    by_label = lines.setdefault(data, {}).setdefault(selected.label(*key), {})
                    by_label[float(str(value))] = Trials(trials)
    return lines
