"""The efficiency tables: what training costs, and what it gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from riskmatch.report import titles
from riskmatch.report.coverage import how
from riskmatch.report.published import EFFICIENCY, PAPER
from riskmatch.report.selected import RowKey, Selected
from riskmatch.report.tables import Amount, Cell, Table
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.records import RunRecord


def efficiency_table(
    runs: Iterable[RunRecord], data: str, rule: str = "train-val", plan: Iterable[RunConfig] = ()
) -> Table:
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours."""
    selected = Selected.of(runs, data, rule, plan)
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for key in selected.rows:
        rows.setdefault(key.method, []).append((selected.label(key), *_costs(selected, key)))
    for method, cost in EFFICIENCY.get(data, {}).items():
        label = f"{titles.METHODS[method]} (paper)"
        row = (label, cost.seconds, Amount(cost.memory, 2), cost.accuracy)
        rows.setdefault(method, []).append(row)
    order = titles.in_order(set(rows), titles.METHODS)
    return Table(
        f"{titles.DATA.get(data, data)}: the seconds of a run's training steps and the most memory "
        "they held, without evaluations, each the median over runs; accuracy averaged over test "
        f"domains, in per cent. {how(selected)} (paper): as printed by {PAPER}, on other machines.",
        ("method", "training (s)", "memory (GiB)", "accuracy"),
        tuple(row for method in order for row in rows[method]),
    )


def training_seconds(run: RunRecord) -> float:
    """Of the steps of a run, without evaluations and checkpoints; NaN where not recorded."""
    steps = [0, *(evaluation.step for evaluation in run.evaluations)]
    return math.fsum(
        evaluation.seconds_per_step * (evaluation.step - before)
        for evaluation, before in zip(run.evaluations, steps, strict=False)
        if evaluation.step > before
    )


def _costs(selected: Selected, key: RowKey) -> tuple[Cell, ...]:
    """Of finished runs with one test domain: pairs train on fewer domains."""
    own = [
        run
        for run in selected.runs
        if RowKey(variant(run.config), run.config.model) == key
        and run.status == "done"
        and len(run.config.test_domains) == 1
    ]
    seconds = [s for s in map(training_seconds, own) if not math.isnan(s)]
    peaks = [max(evaluation.peak_memory for evaluation in run.evaluations) for run in own]
    return (
        _seconds(median(seconds)) if seconds else None,
        Amount(median(peaks) / 2**30, 2) if any(peaks) else None,
        selected.average(key),
    )


def _seconds(value: float) -> Amount:
    return Amount(value, 0 if value >= 10 else 1)
