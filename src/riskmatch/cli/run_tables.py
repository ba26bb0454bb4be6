"""The tables of runs, planned or not, as commands print them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.report.page.runs import RunSet
    from riskmatch.report.tables import Table
    from riskmatch.runs.config import RunConfig
    from riskmatch.runs.records import RunRecord


@dataclass(frozen=True)
class Tabled:
    """The runs that tables are made of."""

    runs: Sequence[RunRecord]
    data: Sequence[str]
    """The data sets, with a table each."""
    overview: Sequence[str]
    """Those of them that can be averaged: each once, with the options that most runs have."""
    plan: Sequence[RunConfig] = ()

    @classmethod
    def planned(cls, plan: Sequence[RunConfig], runs: Sequence[RunRecord]) -> Tabled:
        """The runs of a sweep."""
        from riskmatch.report.titles import DATA, in_order

        names = in_order({config.data for config in plan}, DATA)
        return cls(runs, names, names, plan)

    @classmethod
    def found(cls, found: RunSet) -> Tabled:
        """Runs that nobody planned, read as ``riskmatch show`` reads them."""
        from riskmatch.report.page.cases import Cases

        cases = Cases.of(found)
        return cls(cases.records, cases.data, cases.main_data)


def accuracies(tabled: Tabled, rule: str) -> list[Table]:
    """A table per data set; the overview too where there are several."""
    from riskmatch.report.comparison import overview_table, per_domain_table

    tables = [per_domain_table(tabled.runs, data, rule, tabled.plan) for data in tabled.data]
    if len(tabled.overview) > 1:
        alike = [run for run in tabled.runs if run.config.data in tabled.overview]
        tables.append(overview_table(alike, rule, tabled.plan))
    return tables


def costs(tabled: Tabled, rule: str) -> list[Table]:
    """A table of costs per data set."""
    from riskmatch.report.efficiency import efficiency_table

    return [efficiency_table(tabled.runs, data, rule, tabled.plan) for data in tabled.data]


def as_json(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """The captions and rows."""
    return [
        {"caption": table.caption, "rows": list(csv.DictReader(table.csv().splitlines()))}
        for table in tables
    ]
