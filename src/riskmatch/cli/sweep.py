"""``riskmatch sweep``: plan many runs, train them, and tabulate them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.cli.app import call_verb
from riskmatch.cli.errors import BadInput, RunFailed, bad_input, cause_of
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import Column, print_line, print_table
from riskmatch.cli.progress import SweepDisplay, progress
from riskmatch.cli.sweep_options import (
    PlanOptions,
    RetryOptions,
    RunOptions,
    StatusOptions,
    TableOptions,
    parse_with_launcher,
)
from riskmatch.files import printable, to_json
from riskmatch.pace import clock

if TYPE_CHECKING:
    from riskmatch.sweep import Launcher, PlannedRun, SweepStatus
    from riskmatch.sweep.board import State


def run(words: Sequence[str]) -> int:
    """Run the verb that the words begin with."""
    verbs = {"plan": _plan, "run": _run, "status": _status, "retry": _retry, "table": _table}
    return call_verb(
        "sweep", verbs, words, "riskmatch sweep plan sweep --data pacs --methods erm,rdm"
    )


def _plan(words: Sequence[str]) -> int:
    """Write the plan and estimate how long the runs take."""
    options = parse(PlanOptions, "sweep plan", words, {"backbone": ("--model",)})
    from riskmatch.sweep import plan_sweep
    from riskmatch.sweep.plan import FILE

    with progress("images", options.quiet) as on_progress:
        try:
            plan = plan_sweep(
                options.dir,
                options.data,
                options.methods.split(",") if options.methods else None,
                test_domains=options.test_domains,
                leave_two_out=options.leave_two_out,
                leave_out_together=[group.split("+") for group in options.leave_out_together],
                equal_batches=options.equal_batches,
                draws=options.draws,
                trials=options.trials,
                fixed_draws=options.fixed_draws,
                choices=options.choices,
                preset=options.preset,
                data_dir=options.data_dir,
                made_by=shlex.join(["riskmatch", "sweep", "plan", *words]),
                on_progress=on_progress,
            )
        except (ValueError, OSError, ImportError) as error:
            raise BadInput(cause_of(error)) from error
    if not options.quiet:
        known = len(plan.runs) - len(plan.new)
        already = f" ({known} were planned already)" if known else ""
        time = "" if plan.unfinished else " All of them are done."
        if plan.seconds:
            time = f" About {clock(plan.seconds)} on this machine, {plan.jobs} at a time."
        if options.preset:
            print(_preset_line(options.preset, {run.config.method for run in plan.runs}))
        print(f"Added {len(plan.new)} runs to {printable(options.dir / FILE)}{already}.{time}")
        if plan.unfinished:
            print(f"Start them: {_command('run', options.dir)}")
    if options.cost:
        _print_cost(options)
    return 0


def _preset_line(name: str, methods: set[str]) -> str:
    """What a preset sets for these methods."""
    from riskmatch.defaults import PRESETS

    own, common = sorted(methods & PRESETS[name].methods), sorted(methods - PRESETS[name].methods)
    parts = [f"choices of their own for {', '.join(own)}"] if own else []
    if common:
        parts.append(f"network and data handling alone for {', '.join(common)}")
    return f"Preset {name}, {PRESETS[name].summary}: {'; '.join(parts)}."


def _run(words: Sequence[str]) -> int:
    """Train the runs that are not yet done."""
    return _train(RunOptions, "sweep run", words)


def _retry(words: Sequence[str]) -> int:
    """Train the failed runs again."""
    return _train(RetryOptions, "sweep retry", words)


def _status(words: Sequence[str]) -> int:
    """Count the runs that are done, running, failed and waiting."""
    options = parse(StatusOptions, "sweep status", words)
    from riskmatch.sweep.board import STATES, status_of
    from riskmatch.sweep.plan import RUNS

    planned = _read_plan(options.dir)
    titles = {run.config.id: run.title for run in planned}
    status = status_of(planned, options.dir / RUNS)
    if options.json:
        methods = {name: {s: count[s] for s in STATES} for name, count in status.counts.items()}
        values: dict[str, Any] = {s: status.total[s] for s in STATES}
        values |= {"methods": methods, "seconds_left": status.seconds_left}
        values |= {"inactive": status.inactive, "worse_fit": status.worse_fit}
        values["failures"] = [
            {"id": id, "title": titles.get(id), "error": cause}
            for id, cause in status.failed.items()
        ]
        print(to_json(values, indent=2))
    else:
        _print_status(status, titles)
    return 0


def _table(words: Sequence[str]) -> int:
    """Print accuracy by method and test domain, beside the paper's."""
    options = parse(TableOptions, "sweep table", words)
    from riskmatch.report.comparison import tables_of_results
    from riskmatch.runs.frame import read_results
    from riskmatch.runs.records import PLAN
    from riskmatch.selection import find_rule

    try:
        rule = find_rule(options.select)
        rule = replace(rule, after_warmup=options.after_warmup or rule.after_warmup)
        results = read_results([options.dir], begun=False)
        tables = tables_of_results(results, rule, options.costs)
    except FileNotFoundError:
        make = f"{_command('plan', options.dir)} --data NAME"
        raise BadInput(
            f"'{options.dir}' holds no {PLAN} and no runs. Give a folder of runs, or plan a sweep "
            f"with {make}."
        ) from None
    except (ValueError, OSError) as error:
        raise BadInput(cause_of(error)) from error
    for cause in results.left_out:
        print(f"riskmatch: {printable(cause)}", file=sys.stderr)
    if options.json:
        print(to_json([table.to_json() for table in tables], indent=2))
    else:
        print("\n\n".join(getattr(table, options.format)() for table in tables))
    return 0


def _train(command: type[RunOptions], name: str, words: Sequence[str]) -> int:
    options, launcher = parse_with_launcher(command, name, words)
    from riskmatch.sweep import retry_sweep, run_sweep

    planned = _read_plan(options.dir, to_train=True)
    if options.cost:
        _print_cost(options, launcher)
        return 0
    train = retry_sweep if command is RetryOptions else run_sweep
    with SweepDisplay(planned, options.quiet) as display:
        try:
            board = train(
                options.dir,
                launcher,
                data_dir=options.data_dir,
                on_change=display.change,
                on_progress=display.progress,
            )
        except ChildProcessError as error:
            raise RunFailed(str(error)) from error
        except (ValueError, OSError, ImportError) as error:
            raise BadInput(cause_of(error)) from error
    if error_message := board.error_message(planned):
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
    from riskmatch.sweep import sweep_cost

    retry = isinstance(options, RetryOptions)
    with bad_input(), progress("images", options.quiet) as on_progress:
        cost = sweep_cost(
            options.dir, launcher, retry=retry, data_dir=options.data_dir, on_progress=on_progress
        )
    nothing = "No run has failed." if retry else "No run is left to train."
    print(cost.text() if cost.runs else nothing)


def _read_plan(folder: Path, to_train: bool = False) -> list[PlannedRun]:
    from riskmatch.sweep.plan import read
    from riskmatch.sweep.run import planned_runs

    try:
        return planned_runs(folder) if to_train else read(folder)
    except FileNotFoundError as error:
        make = f"{_command('plan', folder)} --data NAME"
        raise BadInput(f"{error} Plan a sweep with {make}.") from None
    except (ValueError, OSError) as error:
        raise BadInput(cause_of(error)) from error


def _command(verb: str, folder: Path) -> str:
    return printable(shlex.join(["riskmatch", "sweep", verb, str(folder)]))


def _print_status(status: SweepStatus, titles: Mapping[str, str]) -> None:
    from riskmatch.sweep.board import STATES

    counts = {**status.counts, "all": status.total}

    def column(state: State) -> Column:
        return Column(state, lambda method: counts[method][state] or "")

    print_table([Column("method", str), *map(column, STATES)], counts)
    for id, cause in status.failed.items():
        print_line(f"failed: {titles.get(id, 'an ERM phase')} ({id}): {cause}")
    for note in [*status.inactive, *status.worse_fit]:
        print_line(f"note: {note}")
    if status.seconds_left:
        jobs = max(1, status.total["running"])
        print_line(f"about {clock(status.seconds_left)} left at {jobs} at a time")
