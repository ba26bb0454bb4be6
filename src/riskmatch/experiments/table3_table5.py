"""Tables 3 and 5: training time, memory and accuracy of four methods.

Table 3 is on DomainNet, Table 5 on the other image benchmarks. All methods use their default
hyper-parameters. L matches every domain with the pool, L̂ the worst domain.
"""

from __future__ import annotations

from dataclasses import replace

from riskmatch.experiments.experiment import (
    Experiment,
    ExperimentOption,
    FinishedRuns,
    Output,
    Scope,
)
from riskmatch.experiments.images import (
    IMAGE_DATA,
    planned_runs,
    protocols,
    run_count,
    write_tables,
)
from riskmatch.report.comparison import efficiency_table, select
from riskmatch.runs.frame import frame_of
from riskmatch.sweep.plan import Protocol

_JOBS_NOTE = "Runs trained at the same time share the processor; measure with --jobs 1."


def _protocols(scope: Scope) -> list[Protocol]:
    return [
        replace(protocol, draws=1)
        for data in scope.data
        for methods, fields in (
            (("fish", "coral", "rdm"), {}),
            (("rdm",), {"match": "variance"}),
        )
        for protocol in protocols(data, scope.budget, methods, fields)
    ]


def _experiment(
    number: int, where: str, data: tuple[str, ...], options: tuple[ExperimentOption, ...] = ()
) -> Experiment:
    def write(finished: FinishedRuns) -> Output:
        plan = [run.config for run in finished.planned]
        selected = select(frame_of(finished.records.values()), plan=plan)
        tables = [efficiency_table(selected[name]) for name in finished.scope.data]
        captioned = [replace(one, caption=f"{one.caption} {_JOBS_NOTE}") for one in tables]
        return write_tables(f"Table {number}", captioned, finished)

    return Experiment(
        f"Table {number}",
        f"training time, memory and accuracy of Fish, CORAL and RDM (L and L̂) on {where}",
        data,
        lambda scope: planned_runs(_protocols(scope)),
        write,
        options,
        count=lambda scope: run_count(_protocols(scope)),
    )


TABLE3 = _experiment(3, "DomainNet", ("domainnet",))
TABLE5 = _experiment(
    5,
    "the other image benchmarks",
    tuple(name for name in IMAGE_DATA if name != "domainnet"),
    options=("data",),
)
