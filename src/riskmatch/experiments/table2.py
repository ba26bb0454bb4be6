"""Table 2: accuracy of every method on every image benchmark."""

from __future__ import annotations

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.experiments.images import (
    IMAGE_DATA,
    planned_runs,
    protocols,
    run_count,
    write_tables,
)
from riskmatch.report.comparison import overview_table, select
from riskmatch.runs.frame import frame_of
from riskmatch.sweep.plan import Protocol


def search(scope: Scope) -> list[Protocol]:
    """Hyper-parameter searches of every method on every data set of the scope."""
    return [one for data in scope.data for one in protocols(data, scope.budget, scope.methods)]


def _write(finished: FinishedRuns) -> Output:
    plan = [run.config for run in finished.planned]
    selected = select(frame_of(finished.records.values()), plan=plan)
    return write_tables("Table 2", [overview_table(list(selected.values()))], finished)


TABLE2 = Experiment(
    "Table 2",
    "accuracy of every method on every image benchmark",
    IMAGE_DATA,
    lambda scope: planned_runs(search(scope)),
    _write,
    options=("data", "methods"),
    count=lambda scope: run_count(search(scope)),
)
