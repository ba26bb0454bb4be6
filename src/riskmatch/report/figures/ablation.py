"""Accuracy against one hyper-parameter, all else being equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from riskmatch.report import titles
from riskmatch.report.figures.curves import Curve
from riskmatch.report.figures.on_file import Runs, about_runs
from riskmatch.report.figures.plot import Lines
from riskmatch.report.selected import Selected
from riskmatch.report.style import looks
from riskmatch.report.tables import Trials
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord

VARIED = {"weight": "matching coefficient λ", "batch_size": "batch size per domain"}
"""What may differ, and what it is called."""


def ablation(runs: Runs) -> Lines:
    """Accuracy averaged over test domains, against what the runs differ in; bars over trials."""
    records = [run.record for run in runs.values()]
    values = {name: {_value(record.config, name) for record in records} for name in VARIED}
    varied = [name for name, found in values.items() if len(found - {None}) > 1]
    if not varied:
        raise ValueError(
            f"These runs are all alike in {' and in '.join(VARIED)}: give runs that differ in one."
        )
    return ablation_plot(records, varied[0], about_runs(runs))


def ablation_plot(records: Iterable[RunRecord], name: str, note: str) -> Lines:
    """Accuracy against the hyper-parameter ``name``: a panel per data set, a line per method.

    The step is chosen by the validation accuracy on the training domains, among those after the
    warm-up: before, all runs are alike. The spread is the standard error over trials.
    """
    records = [_after_warmup(record) for record in records]
    panels = {}
    for data in titles.in_order({r.config.data for r in records}, titles.DATA):
        here = [record for record in records if record.config.data == data]
        lines = _lines(here, data, name)
        shown = looks(lines)
        panels[titles.DATA.get(data, data)] = [
            Curve(
                label,
                list(spreads),
                [s.mean or 0.0 for s in spreads.values()],
                shown[label],
                [s.error or 0.0 for s in spreads.values()],
            )
            for label, spreads in lines.items()
        ]
    said = "Averages over test domains ± standard error over trials; train-val after the warm-up."
    return Lines(
        f"Accuracy against the {VARIED[name]}",
        VARIED[name],
        f"{said} {note}",
        panels,
        "accuracy, %",
        points=True,
        sharey=False,
    )


def _lines(records: list[RunRecord], data: str, name: str) -> dict[str, dict[float, Trials]]:
    """The spread over trials, by method and by value."""
    found: dict[str, dict[float, Trials]] = {}
    for value in sorted({_value(r.config, name) for r in records} - {None}):
        alike = [r for r in records if _value(r.config, name) == value]
        selected = Selected.of(alike, data, "train-val")
        for key in selected.rows:
            if trials := selected.by_trial(key):
                found.setdefault(selected.label(key), {})[value] = Trials(trials)
    return found


def _after_warmup(record: RunRecord) -> RunRecord:
    warmup = record.config.hparams.get("warmup", 0)
    late = tuple(found for found in record.evaluations if found.step > warmup)
    return replace(record, evaluations=late)


def _value(config: RunConfig, name: str) -> Any:
    return config.hparams.get(name) if name == "weight" else getattr(config, name)
