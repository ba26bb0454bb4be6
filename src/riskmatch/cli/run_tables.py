"""The tables of runs, planned or not, as commands print them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from riskmatch.selection import Rule

if TYPE_CHECKING:
    from riskmatch.config import RunConfig
    from riskmatch.records import RunRecord
    from riskmatch.report.findings.runs import Found
    from riskmatch.report.tables import Table


def cases_of(found: Found) -> Sequence[RunRecord]:
    """Runs that nobody planned, read as ``riskmatch show`` reads them."""
    from riskmatch.report.findings.cases import Cases

    return Cases.of(found).records


def accuracies(
    runs: Sequence[RunRecord], rule: Rule, plan: Sequence[RunConfig] = ()
) -> list[Table]:
    """A table per data set; the overview too where there are several."""
    from riskmatch.report.comparison import overview_table, per_domain_table

    names = _names(runs, plan)
    tables = [per_domain_table(runs, data, rule, plan) for data in names]
    return [*tables, overview_table(runs, rule, plan)] if len(names) > 1 else tables


def costs(runs: Sequence[RunRecord], rule: Rule, plan: Sequence[RunConfig] = ()) -> list[Table]:
    """A table of costs per data set."""
    from riskmatch.report.efficiency import efficiency_table

    return [efficiency_table(runs, data, rule, plan) for data in _names(runs, plan)]


def as_json(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """The captions and rows."""
    return [
        {"caption": table.caption, "rows": list(csv.DictReader(table.csv().splitlines()))}
        for table in tables
    ]


def _names(runs: Sequence[RunRecord], plan: Sequence[RunConfig]) -> list[str]:
    """The data sets of the plan; where there is none, of the runs."""
    from riskmatch.report.titles import DATA, in_order

    return in_order({config.data for config in plan or [run.config for run in runs]}, DATA)
