"""Tables 2, 3 and 5 to 10: comparisons of methods on the image benchmarks.

Table 2 has the accuracy of every method on every benchmark, Tables 6 to 10 show the same runs by
test domain. Tables 3 (DomainNet) and 5 (the others) compare training time, memory and accuracy of
four methods with default hyper-parameters; L matches every domain with the pool, L̂ the worst one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from riskmatch.experiments.experiment import (
    Experiment,
    ExperimentOption,
    FinishedRuns,
    Output,
    Scope,
)
from riskmatch.experiments.images import (
    planned_runs,
    protocol,
    shared_batch_size,
    write_tables,
)
from riskmatch.report import titles
from riskmatch.report.comparison import efficiency_table, overview_table, per_domain_table
from riskmatch.report.selected import Selected, select
from riskmatch.report.tables import Table
from riskmatch.runs.frame import results_of
from riskmatch.sweep.plan import Protocol

_JOBS_NOTE = "Runs trained at the same time share the processor; measure with --jobs 1."


def _search(scope: Scope) -> list[Protocol]:
    """Hyper-parameter searches of every method on every data set of the scope."""
    return [protocol(data, scope, scope.methods) for data in scope.data]


def _defaults(scope: Scope) -> list[Protocol]:
    """Fish, CORAL, RDM with L̂ and RDM with L, with default hyper-parameters but one batch size."""
    groups = ("fish", "coral", "rdm"), ("rdm",)
    return [
        replace(protocol(data, scope, methods, fields | shared_batch_size(data, scope)), draws=1)
        for data in scope.data
        for methods, fields in zip(groups, ({}, {"match": "variance"}), strict=True)
    ]


def _experiment(
    number: int,
    summary: str,
    data: tuple[str, ...],
    plan: Callable[[Scope], list[Protocol]],
    tables: Callable[[list[Selected]], list[Table]],
    *options: ExperimentOption,
) -> Experiment:
    def write(finished: FinishedRuns) -> Output:
        configs = [run.config for run in finished.planned]
        selected = select(results_of(finished.records.values(), configs))
        return write_tables(f"Table {number}", tables(list(selected.values())), finished)

    def count(scope: Scope) -> int:
        """Upper bound of the number of runs."""
        return sum(p.draws * p.trials * len(p.tests) * len(p.methods) for p in plan(scope))

    return Experiment(
        f"Table {number}",
        summary,
        data,
        lambda scope: planned_runs(plan(scope)),
        write,
        (*options, "preset"),
        count=count,
    )


def overview(number: int, data: tuple[str, ...]) -> Experiment:
    """A table of the accuracy of every method on every data set."""
    summary = "accuracy of every method on every image benchmark"
    return _experiment(
        number, summary, data, _search, lambda sets: [overview_table(sets)], "data", "methods"
    )


def efficiency(number: int, where: str, data: tuple[str, ...]) -> Experiment:
    """Tables of training time, memory and accuracy of four methods, one for each data set."""

    def tables(selected: list[Selected]) -> list[Table]:
        plain = map(efficiency_table, selected)
        return [replace(one, caption=f"{one.caption} {_JOBS_NOTE}") for one in plain]

    summary = f"training time, memory and accuracy of Fish, CORAL and RDM (L and L̂) on {where}"
    options: tuple[ExperimentOption, ...] = ("data",) if len(data) > 1 else ()
    return _experiment(number, summary, data, _defaults, tables, *options)


def by_domain(number: int, data: str) -> Experiment:
    """A table of the accuracy of every method on every test domain of a data set."""
    summary = f"accuracy by test domain on {titles.DATA[data]}"
    return _experiment(
        number, summary, (data,), _search, lambda sets: [*map(per_domain_table, sets)], "methods"
    )
