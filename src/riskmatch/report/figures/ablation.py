"""Figure of accuracy against one hyper-parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from riskmatch.report import titles
from riskmatch.report.figures.charts import Curve
from riskmatch.report.figures.plot import Lines
from riskmatch.report.figures.risks import Runs
from riskmatch.report.naming import data_title, setup
from riskmatch.report.selected import Selected
from riskmatch.report.style import line_styles
from riskmatch.report.tables import Trials
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord

VARIED = {"weight": "matching coefficient λ", "batch_size": "batch size per domain"}
"""Hyper-parameters that can be varied, with their labels."""


def ablation(runs: Runs) -> Lines:
    """Accuracy averaged over test domains, against the hyper-parameter that differs."""
    records = [run.record for run in runs.values()]
    values = {name: {_value(record.config, name) for record in records} for name in VARIED}
    varied = [name for name, distinct in values.items() if len(distinct - {None}) > 1]
    if not varied:
        raise ValueError(
            f"These runs have the same {' and '.join(VARIED)}; give runs that differ in one of "
            "them."
        )
    return ablation_plot(records, varied[0], setup(record.config for record in records))


def ablation_plot(records: Iterable[RunRecord], name: str, note: str) -> Lines:
    """Accuracy against the hyper-parameter ``name``: one panel per data set, one line per method.

    The step is chosen by train-val among the evaluations after the warm-up, because all runs are
    equal before. Error bars are standard errors over trials.
    """
    records = [_after_warmup(record) for record in records]
    panels = {}
    for data in titles.in_order({r.config.data for r in records}, titles.DATA):
        lines = _lines([record for record in records if record.config.data == data], data, name)
        styles = line_styles(lines)
        panels[data_title(data)] = [
            Curve(
                label,
                list(by_value),
                [trials.mean or 0.0 for trials in by_value.values()],
                styles[label],
                [trials.error or 0.0 for trials in by_value.values()],
            )
            for label, by_value in lines.items()
        ]
    caption = (
        "Averages over test domains ± standard error over trials; train-val after the warm-up."
    )
    return Lines(
        f"Accuracy against the {VARIED[name]}",
        VARIED[name],
        f"{caption} {note}",
        panels,
        "accuracy, %",
        points=True,
        sharey=False,
    )


def _lines(records: list[RunRecord], data: str, name: str) -> dict[str, dict[float, Trials]]:
    """Accuracies of the trials, by method and value of the hyper-parameter."""
    lines: dict[str, dict[float, Trials]] = {}
    for value in sorted({_value(r.config, name) for r in records} - {None}):
        members = [r for r in records if _value(r.config, name) == value]
        selected = Selected.of(members, data, "train-val")
        for key in selected.rows:
            if trials := selected.by_trial(key):
                lines.setdefault(selected.label(key), {})[value] = Trials(trials)
    return lines


def _after_warmup(record: RunRecord) -> RunRecord:
    warmup = record.config.hparams.get("warmup", 0)
    return replace(record, evaluations=tuple(e for e in record.evaluations if e.step > warmup))


def _value(config: RunConfig, name: str) -> Any:
    return config.hparams.get(name) if name == "weight" else getattr(config, name)
