"""Methods side by side."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import Any

from riskmatch.report import titles
from riskmatch.report.coverage import how
from riskmatch.report.difference import paired
from riskmatch.report.findings.cases import Cases
from riskmatch.report.selected import RowKey, Selected, row_label
from riskmatch.report.tables import Trials


def compared(cases: Cases) -> dict[str, Any]:
    """Accuracy by method under train-val: by test domain, or by data set where there are several.

    Mean ± standard error over trials, and the paired differences from ERM with their 95 %
    intervals.
    """
    sets = [Selected.of(cases.records, data, "train-val", cases.plan) for data in cases.data]
    methods = titles.in_order({key.method for one in sets for key in one.rows}, titles.METHODS)
    keys = sorted(
        {key for one in sets for key in one.rows},
        key=lambda key: (methods.index(key.method), key.model),
    )
    several = len({key.model for key in keys}) > 1
    if len(sets) == 1:
        columns: Sequence[str] = sets[0].domains
    else:
        columns = [titles.DATA.get(one.data, one.data) for one in sets]
    rows: list[list[str | float | None]] = []
    differences = []
    for key in keys:
        label = row_label(key, several)
        values = _by_domain(sets[0], key) if len(sets) == 1 else [s.by_trial(key) for s in sets]
        whole = round(fmean(map(fmean, values)), 2) if values and all(values) else None
        rows.append([label, *(str(Trials(v)) if v else None for v in values), whole])
        if key.method != "erm":
            found = paired(_all(sets, key), _all(sets, RowKey("erm", key.model)))
            if found is not None:
                half = found.half
                differences.append(
                    {
                        "method": label,
                        "against": row_label(RowKey("erm", key.model), several),
                        "mean": found.mean,
                        "low": None if half is None else found.mean - half,
                        "high": None if half is None else found.mean + half,
                        "pairs": found.pairs,
                    }
                )
    told = " ".join(f"{titles.DATA.get(one.data, one.data)}. {how(one)}" for one in sets)
    return {
        "caption": "Accuracy on test domains, in per cent: mean ± standard error (standard "
        f"deviation / √trials) over trials. {told}",
        "columns": ["method", *columns, "average"],
        "rows": rows,
        "differences": differences,
    }


def _by_domain(selected: Selected, key: RowKey) -> list[tuple[float, ...]]:
    return list(selected.by_domain(key).values())


def _all(sets: Sequence[Selected], key: RowKey) -> dict[Hashable, float]:
    """In per cent, by data set, test domain and trial."""
    return {(s.data, *at): value for s in sets for at, value in s.accuracies(key).items()}
