"""``riskmatch sweep``: plan many runs, train them, and tabulate them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import riskmatch
from riskmatch.cli.errors import BadInput, RunFailed
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Compared, LaunchingCommand, PlanningCommand, Quiet
from riskmatch.cli.printer import Column, print_json, print_line, print_table, printable
from riskmatch.cli.progress import Display, SweepDisplay, clock

if TYPE_CHECKING:
    from riskmatch.sweep import Launcher, SweepStatus
    from riskmatch.sweep.board import State


@dataclass
class Plan(Quiet, PlanningCommand):
    """Write the runs of a sweep to DIR/plan.jsonl, and estimate how long they take.

    Each domain is left out in turn. Hyper-parameters are drawn at random; the first draw is the
    defaults. Every trial has its own splits, weights and draws. If DIR has a plan already, the runs
    that it lacks are added. The file is JSON lines: to leave runs out, remove their lines.

    Methods, data sets and networks of your own are named package.module:Name.

    Example:
      riskmatch sweep plan sweep --data pacs --methods erm,rdm,coral --frozen --draws 5
    """

    dir: Positional[Path]
    """Folder of the sweep."""
    data: str
    """Name or path of the data set."""
    methods: list[str] | None = None
    """Comma-separated methods, such as erm,rdm; by default all."""
    test_domains: tuple[str, ...] = ()
    """Domain to leave out; by default each in turn."""
    leave_two_out: bool = False
    """Also leave out every pair of domains, for selection by leave-one-out."""
    leave_out_together: tuple[str, ...] = ()
    """Domains to leave out at once, as in site-c+site-d, where they share pictures or objects."""
    equal_batches: bool = False
    """Use one batch size for all methods and draws, that of ERM on the data set."""
    draws: str = "20"
    """Random settings per method, draw 0 being the defaults; domainbed for the 20 that DomainBed
    draws, domainbed:5 for 5 of them."""
    trials: int = 3
    """Number of trials of each draw."""
    fixed_draws: bool = False
    """Use the same draws in all trials."""
    preset: str | None = None
    """Choices and ranges of every method: paper; authors-code for those of its released code; or
    domainbed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Field of the methods that have it, fixed in all draws."""
    frozen: bool = False
    """Train only the head, on the features of a frozen backbone."""
    data_dir: Path | None = None
    """Folder searched first for the files of the data set."""
    settings: bool = False
    """Print the value of every setting and where it comes from, and plan nothing."""
    cost: bool = False
    """Print time and memory of the runs by method, from a few steps of each."""
    workers: int | None = None
    """With --cost: also print the time that so many machines or GPUs take together."""
    throughput: str | None = None
    """With --cost: samples per second of training on them, or a factor of the speed here, as in
    20x."""

    def execute(self) -> None:
        """Write the plan and estimate how long the runs take."""
        _check_cost(self)
        if self.settings:
            self._print_settings()
            return
        renamed = ("dir", "leave_out_together", "options", "settings", *_COST)
        with Display(self.quiet) as display:
            plan = riskmatch.plan_sweep(
                self.dir,
                **self.arguments(*renamed),
                leave_out_together=[group.split("+") for group in self.leave_out_together],
                choices=self.choices,
                made_by=self.line,
                on_progress=display.progress,
            )
        if not self.quiet:
            known = len(plan.runs) - len(plan.new)
            already = f" ({known} were planned already)" if known else ""
            time = "" if plan.unfinished else " All of them are done."
            if plan.seconds:
                time = f" About {clock(plan.seconds)} on this machine, {plan.jobs} at a time."
            print(f"Added {len(plan.new)} runs to {printable(plan.file)}{already}.{time}")
            if plan.unfinished:
                print(f"Start them: {_command('run', self.dir)}")
        if self.cost:
            _print_cost(self)

    def _print_settings(self) -> None:
        names = "data", "methods", "preset", "frozen", "draws"
        settings = riskmatch.sweep_settings(
            choices=self.choices, **{name: getattr(self, name) for name in names}
        )
        for method, values in settings.items():
            print("\n".join([method, *(f"  {line}" for line in riskmatch.setting_lines(values))]))


@dataclass
class RunSweep(Quiet, LaunchingCommand):
    """Train the planned runs in DIR that are not yet done.

    Interrupted runs resume from their last checkpoints; failed runs are left alone. Several such
    commands at the same time share the work.
    """

    dir: Positional[Path]
    """Folder of the sweep."""
    launcher: str = "local"
    """How to train: local, ray, slurm, or package.module:Name; --help lists its options."""
    data_dir: Path | None = None
    """Folder searched first for the files of data sets."""
    cost: bool = False
    """Estimate time and memory of the runs from a few steps of each method, and train nothing."""
    workers: int | None = None
    """With --cost: also print the time that so many machines or GPUs take together."""
    throughput: str | None = None
    """With --cost: samples per second of training on them, or a factor of the speed here, as in
    20x."""

    retry: ClassVar[bool] = False
    """Whether to train the failed runs instead."""

    def execute(self) -> None:
        """Train the runs that are not yet done."""
        _check_cost(self)
        launcher = self.make_launcher()
        if self.cost:
            _print_cost(self, launcher, self.retry)
            return
        with SweepDisplay(quiet=self.quiet) as display:
            board = riskmatch.run_sweep(
                self.dir, launcher, retry=self.retry, data_dir=self.data_dir, **display.callbacks
            )
        if error_message := board.error_message(display.planned):
            status, retry = _command("status", self.dir), _command("retry", self.dir)
            cure = f"List all failures: {status}. To retry: {retry}"
            if board.interrupted:
                cure = f"To continue: {_command('run', self.dir)}"
            raise RunFailed(f"{error_message} {cure}")
        if not self.quiet:
            table = f"All {board.total} runs are done. Tabulate them: {_command('table', self.dir)}"
            print(table if board.total else "No run has failed.")


@dataclass
class Retry(RunSweep):
    """Train the failed runs in DIR again, from their last checkpoints."""

    retry: ClassVar[bool] = True

    def execute(self) -> None:
        """Train the failed runs again."""
        super().execute()


@dataclass
class Status(Command):
    """Count the runs of each method that are done, running, failed or waiting; list failures."""

    dir: Positional[Path]
    """Folder of the sweep."""
    json: bool = False
    """Print JSON."""

    def execute(self) -> None:
        """Count the runs that are done, running, failed and waiting."""
        status = riskmatch.sweep_status(self.dir)
        if self.json:
            print_json(status.to_json())
        else:
            _print_status(status)


@dataclass
class Tabulate(Compared, Command):
    """Print the metric by method and test domain, one table per data set, from the runs so far.

    DIR can be any folder of runs, imported ones too; without a plan all runs in it count.

    Rules:
      train-val      the best validation metric on the training domains
      test-val       the oracle: the best validation metric on the test domain, at the last step
      leave-one-out  the best metric on domains held out besides the test domain; needs runs
                     planned with --leave-two-out
      colored-mnist-best, colored-mnist-last
                     those of the paper's Table 1
    """

    dir: Positional[Path]
    """Folder of the sweep, or of runs."""
    select: str = "train-val"
    """Rule that chooses runs and steps."""
    after_warmup: bool = False
    """Choose among the steps at which the method acts, those after its warm-up."""
    costs: bool = False
    """Print seconds, memory and the average by method instead."""
    format: Literal["markdown", "latex", "csv"] = "markdown"
    """Format of the tables."""
    json: bool = False
    """Print JSON."""

    def execute(self) -> None:
        """Print the metric by method and test domain, beside the paper's."""
        more = self.arguments("dir", "select", "costs", "after_warmup", "format")
        tables = riskmatch.tables_of(self.dir, self.select, self.costs, self.after_warmup, **more)
        if self.json:
            print_json([table.to_json() for table in tables])
        else:
            print("\n\n".join(getattr(table, self.format)() for table in tables))


_COST = "cost", "workers", "throughput"
VERBS = {"plan": Plan, "run": RunSweep, "status": Status, "retry": Retry, "table": Tabulate}
EXAMPLE = "riskmatch sweep plan sweep --data pacs --methods erm,rdm"


def _check_cost(command: Plan | RunSweep) -> None:
    """Raise for options of ``--cost`` without it, or without a meaning."""
    given = [name for name in _COST[1:] if getattr(command, name) is not None]
    if given and not command.cost:
        raise BadInput(f"--{given[0]} is an option of --cost.")
    if command.workers is not None and command.workers < 1:
        raise BadInput(f"--workers must be at least 1, got {command.workers}.")


def _print_cost(
    command: Plan | RunSweep, launcher: Launcher | str = "local", retry: bool = False
) -> None:
    with Display(command.quiet) as display:
        cost = riskmatch.sweep_cost(
            command.dir,
            launcher,
            retry=retry,
            data_dir=command.data_dir,
            throughput=command.throughput,
            on_progress=display.progress,
        )
    nothing = "No run has failed." if retry else "No run is left to train."
    print(cost.text(command.workers) if cost.runs else nothing)


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
