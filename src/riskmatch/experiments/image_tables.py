"""The tables of the benchmarks of images: over data sets, by test domain, and of costs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace

from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.experiments.experiment import (
    Experiment,
    Finished,
    Option,
    Request,
    Result,
)
from riskmatch.experiments.notes import NOTES, in_place_of, left_out
from riskmatch.experiments.on_images import costs, count, runs, search
from riskmatch.files import write_whole
from riskmatch.report import titles
from riskmatch.report.comparison import overview_table, per_domain_table
from riskmatch.report.efficiency import efficiency_table
from riskmatch.report.tables import Table
from riskmatch.sweep.plan import PlannedRun, Protocol

_SIDE_BY_SIDE = (
    "Runs that were trained side by side shared the processor; --jobs 1 trains one at a time."
)


def _overview(finished: Finished[PlannedRun]) -> list[Table]:
    plan = [run.config for run in finished.planned]
    return [overview_table(finished.records.values(), plan=plan)]


def _by_domain(finished: Finished[PlannedRun]) -> list[Table]:
    return _of_each(per_domain_table, finished)


def _efficiency(finished: Finished[PlannedRun]) -> list[Table]:
    tables = _of_each(efficiency_table, finished)
    return [replace(one, caption=f"{one.caption} {_SIDE_BY_SIDE}") for one in tables]


def _of_each(table: Callable[..., Table], finished: Finished[PlannedRun]) -> list[Table]:
    plan, found = [run.config for run in finished.planned], list(finished.records.values())
    return [table(found, data, plan=plan) for data in finished.request.data]


def _experiment(
    number: int,
    summary: str,
    data: tuple[str, ...],
    protocols: Callable[[Request], list[Protocol]],
    tables: Callable[[Finished[PlannedRun]], list[Table]],
    options: tuple[Option, ...],
) -> Experiment[PlannedRun]:
    return Experiment(
        f"Table {number}",
        summary,
        data,
        lambda request: runs(protocols(request)),
        lambda finished: write_tables(f"Table {number}", tables(finished), finished),
        options,
        count=lambda request: count(protocols(request)),
    )


def _per_domain(number: int, name: str) -> Experiment[PlannedRun]:
    summary = f"accuracy by test domain on {titles.DATA[name]}"
    return _experiment(number, summary, (name,), search, _by_domain, ("methods",))


_ALL = tuple(name for name in titles.DATA if name in BENCHMARKS)

IMAGE_TABLES: dict[str, Experiment[PlannedRun]] = {
    "table2": _experiment(
        2,
        "accuracy of every method on every benchmark of images",
        _ALL,
        search,
        _overview,
        ("data", "methods"),
    ),
    "table3": _experiment(
        3,
        "what Fish, CORAL, RDM with L and with L̂ cost and give on DomainNet",
        ("domainnet",),
        costs,
        _efficiency,
        (),
    ),
    "efficiency": _experiment(
        5,
        "what Fish, CORAL, RDM with L and with L̂ cost and give on the other benchmarks",
        tuple(name for name in _ALL if name != "domainnet"),
        costs,
        _efficiency,
        ("data",),
    ),
    "domainnet": _per_domain(6, "domainnet"),
    "pacs": _per_domain(7, "pacs"),
    "vlcs": _per_domain(8, "vlcs"),
    "officehome": _per_domain(9, "officehome"),
    "terraincognita": _per_domain(10, "terraincognita"),
}
"""By name, with the paper's numbers."""


def write_tables(title: str, tables: Sequence[Table], finished: Finished[PlannedRun]) -> Result:
    """Tables, one for all data sets or one for each, as Markdown, LaTeX and CSV."""
    request = finished.request
    tables = [replace(one, caption=in_place_of(request) + one.caption) for one in tables]
    notes = [note for note in (NOTES[request.budget], left_out(request)) if note]
    shown = [*(one.markdown() for one in tables), *notes]
    texts = {
        "md": "\n\n".join([f"# {title}", *shown, f"Written by `{finished.command}`."]) + "\n",
        "tex": "\n\n".join(one.latex() for one in tables) + "\n",
        "csv": (tables[0] if len(tables) == 1 else _joined(request.data, tables)).csv(),
    }
    for suffix, text in texts.items():
        write_whole(finished.file(suffix), text.encode())
    files = [finished.file(suffix) for suffix in texts]
    return Result(files, "\n\n".join(shown), list(csv.DictReader(texts["csv"].splitlines())))


def _joined(names: Sequence[str], tables: Sequence[Table]) -> Table:
    rows = [(name, *row) for name, one in zip(names, tables, strict=True) for row in one.rows]
    return Table("", ("data", *tables[0].columns), tuple(rows))
