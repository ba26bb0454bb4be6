"""Methods side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from riskmatch.report.comparison import against_erm
from riskmatch.report.coverage import draws
from riskmatch.report.difference import Difference
from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.naming import data_title
from riskmatch.report.selected import RowKey, Selected, row_label, rows_over
from riskmatch.report.tables import Trials
from riskmatch.selection import EXPLAINED


def compared(cases: Cases) -> dict[str, Any]:
    """Accuracy by method under train-val: by test domain, or by data set where there are several.

    Mean ± standard error over trials, and the paired differences from ERM with their 95 %
    intervals.
    """
    sets = [Selected.of(cases.records, data, "train-val", cases.plan) for data in cases.main_data]
    if len(sets) == 1:
        columns: Sequence[str] = sets[0].domains
    else:
        columns = [data_title(one.data) for one in sets]
    rows: list[list[str | float | None]] = []
    differences = []
    for key in rows_over(sets):
        label = row_label(key)
        alone = list(sets[0].by_domain(key).values())
        values = alone if len(sets) == 1 else [one.by_trial(key) for one in sets]
        whole = round(fmean(map(fmean, values)), 2) if values and all(values) else None
        rows.append([label, *(str(Trials(v)) if v else None for v in values), whole])
        found = against_erm(sets, key)
        if found is not None:
            differences.append(_interval(label, row_label(RowKey("erm", key.model)), found))
    told = " ".join(f"{data_title(one.data)}: {draws(one)}." for one in sets)
    return {
        "caption": "Accuracy on test domains, in per cent: mean ± standard error (standard "
        "deviation / √trials) over trials, at the run and step that have the best of "
        f"{EXPLAINED['train-val']}. {told}",
        "columns": ["method", *columns, "average"],
        "rows": rows,
        "differences": differences,
    }


def _interval(method: str, against: str, found: Difference) -> dict[str, Any]:
    half = math.nan if found.half is None else found.half
    return {
        "method": method,
        "against": against,
        "mean": found.mean,
        "low": found.mean - half,
        "high": found.mean + half,
        "pairs": found.pairs,
    }
