"""``riskmatch sweep``: plan many runs, train them, and tabulate them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import riskmatch
from riskmatch.cli.app import call_verb
from riskmatch.cli.errors import RunFailed, bad_input
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import Column, print_json, print_line, print_table, printable
from riskmatch.cli.progress import SweepDisplay, clock, progress
from riskmatch.cli.run_options import parse_planned
from riskmatch.cli.sweep_options import (
    PlanOptions,
    RetryOptions,
    RunOptions,
    StatusOptions,
    TableOptions,
    parse_with_launcher,
)

if TYPE_CHECKING:
    from riskmatch.sweep import Launcher, SweepStatus
    from riskmatch.sweep.board import State


def run(words: Sequence[str]) -> int:
    """Run the verb that the words begin with."""
    verbs = {"plan": _plan, "run": _run, "status": _status, "retry": _retry, "table": _table}
    return call_verb(
        "sweep", verbs, words, "riskmatch sweep plan sweep --data pacs --methods erm,rdm"
    )


def _plan(words: Sequence[str]) -> int:
    """Write the plan and estimate how long the runs take."""
    options, given = parse_planned(PlanOptions, "sweep plan", words)
    methods = options.methods.split(",") if options.methods else None
    choices = {**options.options, **given}
    if options.settings:
        _print_settings(options, methods, choices)
        return 0
    with bad_input(), progress("images", options.quiet) as on_progress:
        plan = riskmatch.plan_sweep(
            options.dir,
            options.data,
            methods,
            test_domains=options.test_domains,
            leave_two_out=options.leave_two_out,
            leave_out_together=[group.split("+") for group in options.leave_out_together],
            equal_batches=options.equal_batches,
            draws=options.draws,
            trials=options.trials,
            fixed_draws=options.fixed_draws,
            frozen=options.frozen,
            choices=choices,
            preset=options.preset,
            data_dir=options.data_dir,
            made_by=shlex.join(["riskmatch", "sweep", "plan", *words]),
            on_progress=on_progress,
        )
    if not options.quiet:
        known = len(plan.runs) - len(plan.new)
        already = f" ({known} were planned already)" if known else ""
        time = "" if plan.unfinished else " All of them are done."
        if plan.seconds:
            time = f" About {clock(plan.seconds)} on this machine, {plan.jobs} at a time."
        print(f"Added {len(plan.new)} runs to {printable(plan.file)}{already}.{time}")
        if plan.unfinished:
            print(f"Start them: {_command('run', options.dir)}")
    if options.cost:
        _print_cost(options)
    return 0


def _print_settings(
    options: PlanOptions, methods: Sequence[str] | None, choices: Mapping[str, Any]
) -> None:
    with bad_input():
        settings = riskmatch.sweep_settings(
            options.data, methods, choices=choices, preset=options.preset, frozen=options.frozen
        )
    for method, values in settings.items():
        print("\n".join([method, *(f"  {line}" for line in riskmatch.setting_lines(values))]))


def _run(words: Sequence[str]) -> int:
    """Train the runs that are not yet done."""
    return _train(RunOptions, "sweep run", words)


def _retry(words: Sequence[str]) -> int:
    """Train the failed runs again."""
    return _train(RetryOptions, "sweep retry", words)


def _status(words: Sequence[str]) -> int:
    """Count the runs that are done, running, failed and waiting."""
    options = parse(StatusOptions, "sweep status", words)
    with bad_input():
        status = riskmatch.sweep_status(options.dir)
    if options.json:
        print_json(status.to_json())
    else:
        _print_status(status)
    return 0


def _table(words: Sequence[str]) -> int:
    """Print accuracy by method and test domain, beside the paper's."""
    options = parse(TableOptions, "sweep table", words)
    with bad_input():
        tables = riskmatch.tables_of(
            options.dir, options.select, options.costs, options.after_warmup
        )
    if options.json:
        print_json([table.to_json() for table in tables])
    else:
        print("\n\n".join(getattr(table, options.format)() for table in tables))
    return 0


def _train(command: type[RunOptions], name: str, words: Sequence[str]) -> int:
    options, launcher = parse_with_launcher(command, name, words)
    if options.cost:
        _print_cost(options, launcher)
        return 0
    with bad_input(), SweepDisplay(quiet=options.quiet) as display:
        board = riskmatch.run_sweep(
            options.dir,
            launcher,
            retry=command is RetryOptions,
            data_dir=options.data_dir,
            on_plan=display.plan,
            on_change=display.change,
            on_progress=display.progress,
        )
    if error_message := board.error_message(display.planned):
        status, retry = _command("status", options.dir), _command("retry", options.dir)
        cure = f"List all failures: {status}. To retry: {retry}"
        if board.interrupted:
            cure = f"To continue: {_command('run', options.dir)}"
        raise RunFailed(f"{error_message} {cure}")
    if not options.quiet:
        table = f"All {board.total} runs are done. Tabulate them: {_command('table', options.dir)}"
        print(table if board.total else "No run has failed.")
    return 0


def _print_cost(options: PlanOptions | RunOptions, launcher: Launcher | str = "local") -> None:
    retry = isinstance(options, RetryOptions)
    with bad_input(), progress("images", options.quiet) as on_progress:
        cost = riskmatch.sweep_cost(
            options.dir, launcher, retry=retry, data_dir=options.data_dir, on_progress=on_progress
        )
    nothing = "No run has failed." if retry else "No run is left to train."
    print(cost.text() if cost.runs else nothing)


def _command(verb: str, folder: Path) -> str:
    return printable(shlex.join(["riskmatch", "sweep", verb, str(folder)]))


def _print_status(status: SweepStatus) -> None:
    counts = {**status.counts, "all": status.total}

    def column(state: State) -> Column:
        return Column(state, lambda method: counts[method][state] or "")

    print_table([Column("method", str), *map(column, status.total)], counts)
    for id, cause in status.failed.items():
        print_line(f"failed: {status.titles.get(id, 'an ERM phase')} ({id}): {cause}")
    for note in [*status.inactive, *status.worse_fit]:
        print_line(f"note: {note}")
    if status.seconds_left:
        jobs = max(1, status.total["running"])
        print_line(f"about {clock(status.seconds_left)} left at {jobs} at a time")
