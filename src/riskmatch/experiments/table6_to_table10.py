"""Tables 6 to 10: accuracy by test domain, one table per image benchmark.

Their runs are those of Table 2.
"""

from __future__ import annotations

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output
from riskmatch.experiments.images import planned_runs, run_count, write_tables
from riskmatch.experiments.table2 import search
from riskmatch.report import titles
from riskmatch.report.comparison import per_domain_table, select
from riskmatch.runs.frame import frame_of


def _experiment(number: int, data: str) -> Experiment:
    def write(finished: FinishedRuns) -> Output:
        plan = [run.config for run in finished.planned]
        selected = select(frame_of(finished.records.values()), plan=plan)
        tables = [per_domain_table(selected[name]) for name in finished.scope.data]
        return write_tables(f"Table {number}", tables, finished)

    return Experiment(
        f"Table {number}",
        f"accuracy by test domain on {titles.DATA[data]}",
        (data,),
        lambda scope: planned_runs(search(scope)),
        write,
        options=("methods",),
        count=lambda scope: run_count(search(scope)),
    )


TABLE6 = _experiment(6, "domainnet")
TABLE7 = _experiment(7, "pacs")
TABLE8 = _experiment(8, "vlcs")
TABLE9 = _experiment(9, "officehome")
TABLE10 = _experiment(10, "terraincognita")
