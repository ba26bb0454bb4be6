"""Accuracy of the runs of a sweep against the hyper-parameters in which they differ."""

from __future__ import annotations

from typing import Any

import pandas as pd

from riskmatch.report.page.selections import PageRuns
from riskmatch.report.selected import Selected, choices_by_run
from riskmatch.report.titles import setting_title

SETTINGS = ("lr", "batch_size", "weight_decay", "dropout", "steps")
"""Numbers that every run has, besides the hyper-parameters of its method."""
LOG_RATIO = 20
"""Ratio of the largest to the smallest value from which on the axis is logarithmic."""


def hyperparameters(page: PageRuns) -> list[dict[str, Any]]:
    """Charts by method, those with a hyper-parameter of their own first.

    A point ``[value, accuracy, test domain]`` is a run on a test domain, with the accuracy in per
    cent at the step that the main rule chooses within the run.
    """
    entries = [entry for one in page.compared for entry in _by_method(one.main)]
    return sorted(entries, key=lambda entry: all(c["name"] in SETTINGS for c in entry["charts"]))


def _by_method(selected: Selected) -> list[dict[str, Any]]:
    runs = selected.results.runs
    rows = choices_by_run(selected).merge(runs.drop(columns=["model", "variant", "data"]), on="run")
    columns = [*(str(name) for name in runs if str(name).startswith("hparams/")), *SETTINGS]
    entries = []
    for key in selected.rows:
        own = selected.part(key, rows)
        charts = [chart for name in columns if (chart := _chart(own, name))]
        if charts:
            entries.append({"method": selected.label(*key), "charts": charts})
    return entries


def _chart(runs: pd.DataFrame, column: str) -> dict[str, Any] | None:
    """Chart of one hyper-parameter; None where it is no number or has one value."""
    values = pd.to_numeric(runs[column], errors="coerce")
    # Without runs, a column of texts would stay one.
    booleans = runs[column].map(lambda value: isinstance(value, bool)).astype(bool)
    known = values.notna() & ~booleans
    if values[known].nunique() < 2:
        return None
    low, high = float(values[known].min()), float(values[known].max())
    name = column.removeprefix("hparams/")
    return {
        "name": name,
        "title": setting_title(name),
        "log": 0 < LOG_RATIO * low <= high,
        "points": [
            [float(value), 100 * float(accuracy), str(domain)]
            for value, accuracy, domain in zip(
                values[known], runs["accuracy"][known], runs["test_domain"][known], strict=True
            )
        ],
    }
