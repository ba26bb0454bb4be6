"""``riskmatch sweep plan``: which runs, and what they will cost."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, check_name
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import clock, progress

if TYPE_CHECKING:
    from riskmatch.data.domain import DomainSet
    from riskmatch.data.progress import OnProgress
    from riskmatch.sweep.plan import PlannedRun


@dataclass(frozen=True)
class Plan:
    """Write down the runs of a sweep, DIR/plan.jsonl, and estimate what they cost.

    Each domain is left out in turn; hyper-parameters are drawn at random, the first draw being the
    defaults; every trial has splits, weights and draws of its own. In a folder that has a plan, it
    is extended by the runs that it lacks. The file is JSON lines: to leave runs out, remove lines.

    Example:
      riskmatch sweep plan sweep --data pacs --methods erm,rdm,coral --frozen --draws 5
    """

    dir: Positional[Path]
    """The folder of the sweep."""
    data: str
    """The name of a data set, or a path."""
    methods: str | None = None
    """Some of the methods, as in erm,rdm; by default all."""
    test_domains: tuple[str, ...] = ()
    """A domain to leave out; by default each in turn."""
    leave_two_out: bool = False
    """Also leave out every pair of domains, for selection by leave-one-out."""
    draws: int = 20
    """Of hyper-parameters; the first are the defaults."""
    trials: int = 3
    """Of each draw."""
    fixed_draws: bool = False
    """Let all trials have the same draws."""
    steps: int | None = None
    """Of each run, in place of the usual number."""
    eval_every: int | None = None
    """Steps from one evaluation to the next, in place of the usual number."""
    backbone: str | None = None
    """The network, in place of the usual one."""
    frozen: bool = False
    """Train the head alone, on the features of a fixed backbone."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Any other field of the runs, or of the methods that have it, not to be drawn."""
    data_options: Mapping[str, Any] = field(default_factory=dict)
    """An option of the data set."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """An option of the network."""
    data_dir: Path | None = None
    """A folder in which to look for the files of the data set first."""
    quiet: bool = False
    """Print nothing but errors."""


def plan(words: Sequence[str]) -> int:
    """Write down which runs there are to be, and what they will cost."""
    options = parse(Plan, "sweep plan", words)
    from riskmatch.data import load
    from riskmatch.sweep.plan import FILE, extend

    with progress("images", options.quiet) as on_progress:
        try:
            domains = load(options.data, options.data_options, options.data_dir, on_progress)
            runs = _runs(options, domains)
            estimate = _estimate(options, runs, on_progress)
            new = extend(options.dir, runs, shlex.join(["riskmatch", "sweep", "plan", *words]))
        except (ValueError, OSError, ImportError) as error:
            raise BadInput(str(error)) from error
    if not options.quiet:
        known = f"; {len(runs) - len(new)} were there" if len(new) < len(runs) else ""
        print(f"{len(new)} runs are new in {options.dir / FILE}{known}. {estimate}")
        print(f"To start: {shlex.join(['riskmatch', 'sweep', 'run', str(options.dir)])}")
    return 0


def _runs(options: Plan, domains: DomainSet) -> list[PlannedRun]:
    from riskmatch.objectives import methods
    from riskmatch.sweep.plan import Protocol, held_out

    for domain in options.test_domains:
        check_name(f"domain of {options.data}", domain, domains.names)
    wanted = set(options.test_domains or domains.names)
    tests = held_out(domains.names, domains.test_only, options.leave_two_out)
    given = {"steps": options.steps, "eval_every": options.eval_every, "model": options.backbone}
    frozen = {"frozen": True} if options.frozen else {}
    return Protocol(
        options.data,
        tuple(options.methods.split(",")) if options.methods else tuple(sorted(methods())),
        tuple(test for test in tests if wanted & set(test)),
        options.draws,
        options.trials,
        options.fixed_draws,
        {
            **options.options,
            **{name: value for name, value in given.items() if value is not None},
            "data_options": options.data_options,
            "model_options": {**options.model_options, **frozen},
        },
    ).runs()


def _estimate(options: Plan, runs: Sequence[PlannedRun], on_progress: OnProgress | None) -> str:
    from riskmatch.sweep.board import Board
    from riskmatch.sweep.plan import RUNS
    from riskmatch.sweep.running import affordable_jobs, threads_each
    from riskmatch.sweep.timing import time_steps
    from riskmatch.sweep.worker import Bench

    out = options.dir / RUNS
    board = Board.of([run.config for run in runs], out, affordable_jobs())
    bench = Bench(out, options.data_dir)
    bench.domains(runs[0].config, on_progress)
    time_steps(board, bench, threads_each(board.jobs))
    if not board.seconds_left:
        return "All of them are done."
    return f"About {clock(board.seconds_left)} here, {board.jobs} at a time."
