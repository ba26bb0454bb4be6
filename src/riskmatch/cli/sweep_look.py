"""``riskmatch sweep status`` and ``riskmatch sweep table``: what there is of a sweep."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import clock
from riskmatch.cli.run_tables import Tabled, accuracies, as_json, costs

if TYPE_CHECKING:
    from riskmatch.sweep.plan import PlannedRun
    from riskmatch.sweep.status import Status


@dataclass(frozen=True)
class Look:
    """How many runs of each method are done, running, failed or waiting, and why they failed."""

    dir: Positional[Path]
    """The folder of the sweep."""
    json: bool = False
    """As JSON."""


@dataclass(frozen=True)
class Tables:
    """Accuracy by method and test domain, a table for each data set, from the runs so far.

    Any folder of runs will do, also of imported ones; without a plan, all that are there count.

    Rules:
      train-val      the best validation accuracy on the training domains
      test-val       the oracle: the best validation accuracy on the test domain
      leave-one-out  the best accuracy on domains held out besides the test domain; needs runs
                     planned with --leave-two-out
    """

    dir: Positional[Path]
    """The folder of the sweep, or of runs."""
    select: str = "train-val"
    """The rule that chooses runs and steps."""
    costs: bool = False
    """Seconds, memory and accuracy by method, in place of the accuracy by test domain."""
    format: Literal["markdown", "latex", "csv"] = "markdown"
    """Of the tables."""
    json: bool = False
    """As JSON."""


def planned_in(folder: Path) -> list[PlannedRun]:
    """The plan in a folder, or what to do about its absence."""
    from riskmatch.sweep.plan import read

    try:
        return read(folder)
    except FileNotFoundError as error:
        make = f"riskmatch sweep plan {shlex.quote(str(folder))} --data NAME"
        raise BadInput(f"{error} Plan one with {make}.") from None
    except ValueError as error:
        raise BadInput(str(error)) from error


def status(words: Sequence[str]) -> int:
    """What is done, running, failed and waiting."""
    options = parse(Look, "sweep status", words)
    from riskmatch.sweep.plan import RUNS
    from riskmatch.sweep.status import STATES, status_of

    planned = planned_in(options.dir)
    found = status_of(planned, options.dir / RUNS)
    titles = {run.config.id: run.title for run in planned}
    if options.json:
        methods = {name: {s: count[s] for s in STATES} for name, count in found.counts.items()}
        values: dict[str, Any] = {s: found.total[s] for s in STATES}
        values |= {"methods": methods, "seconds_left": found.seconds_left}
        values["failures"] = [
            {"id": id, "title": titles.get(id), "error": why} for id, why in found.failed.items()
        ]
        print(json.dumps(values, indent=2))
    else:
        _show(found, titles)
    return 0


def _show(found: Status, titles: dict[str, str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from riskmatch.sweep.status import STATES

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("method", "all")
    for state in STATES:
        table.add_column(state, str(found.total[state]), justify="right")
    for method, count in found.counts.items():
        table.add_row(method, *(str(count[state] or "") for state in STATES))
    console = Console(highlight=False)
    console.print(table)
    for id, why in found.failed.items():
        line = f"failed: {titles.get(id, 'an ERM phase')} ({id}): {why}"
        console.print(line, soft_wrap=True, markup=False)
    if found.seconds_left:
        jobs = max(1, found.total["running"])
        console.print(f"about {clock(found.seconds_left)} left at {jobs} at a time")


def table(words: Sequence[str]) -> int:
    """Accuracy by method and test domain, beside the paper's."""
    options = parse(Tables, "sweep table", words)
    from riskmatch.sweep.plan import FILE

    sweep = (options.dir / FILE).exists()
    tabled = _planned(options.dir) if sweep else _unplanned(options.dir)
    found = (costs if options.costs else accuracies)(tabled, options.select)
    if options.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        print("\n\n".join(getattr(one, options.format)() for one in found))
    return 0


def _planned(folder: Path) -> Tabled:
    """Those of the planned runs that there are; damaged ones are told of and left out."""
    from riskmatch.runs import records
    from riskmatch.sweep.plan import RUNS

    plan = [run.config for run in planned_in(folder)]
    found = []
    for config in plan:
        try:
            found.append(records.find(folder / RUNS / config.id))
        except ValueError as error:
            print(f"riskmatch: {error}", file=sys.stderr)
    return Tabled.planned(plan, [record for record in found if record is not None])


def _unplanned(folder: Path) -> Tabled:
    """The runs in a folder without a plan; damaged ones are told of and left out."""
    from riskmatch.report.findings.runs import find_runs
    from riskmatch.sweep.plan import FILE

    try:
        found = find_runs([folder])
    except FileNotFoundError:
        make = shlex.join(["riskmatch", "sweep", "plan", str(folder), "--data"])
        raise BadInput(
            f"{folder} holds neither {FILE} nor runs. Name a folder of runs, or plan a sweep with "
            f"{make} NAME."
        ) from None
    except ValueError as error:
        raise BadInput(str(error)) from error
    for why in found.damaged:
        print(f"riskmatch: {why}", file=sys.stderr)
    return Tabled.found(found)
