"""Keep the state of a sweep: which runs wait, run, are done or failed, and the time left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from riskmatch.pace import Pace
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.findings import Fit, fit_of, inactive_runs, worse_fit_runs
from riskmatch.runs.records import is_locked
from riskmatch.runs.rows import ReadRun, RunRows, indexed, read_rows
from riskmatch.sweep.plan import PlannedRun
from riskmatch.trust import imports_nothing

Group = tuple[str, str, str]
"""Data set, network and method: runs of a group have steps of about the same length."""
State = Literal["done", "running", "failed", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "waiting")
ERM_PHASES = "(ERM phases)"
"""Stands for the method of the runs that planned runs start from."""


class RunOutcome(NamedTuple):
    """How the training of a run ended in a process."""

    status: Literal["done", "failed", "interrupted", "locked"]
    """``locked``: another process trains the run or has just finished it, or its node was lost; the
    board offers it again."""
    error: str | None = None
    """Cause of the failure."""


def group_of(config: RunConfig) -> Group:
    """Return the group of runs that share one estimate of the seconds per step."""
    return config.data, config.model, config.method


def with_erm_phases(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """List every run once, after the ERM phases that runs start from."""
    phases = [config.erm_phase() for config in configs if config.pretrain]
    return list({config.id: config for config in [*phases, *configs]}.values())


@dataclass
class Board:
    """The runs of a sweep and their state. Launchers take runs from it and report to it.

    Example:
        >>> board = Board([RunConfig("d", ("t",), "erm", steps=10)], jobs=2)
        >>> run = board.start_next()
        >>> board.report_step(run, step=4, seconds=8.0)
        >>> board.seconds_left
        12.0
        >>> board.close(run, RunOutcome("done"))
        >>> (len(board.done), board.unfinished)
        (1, [])
    """

    waiting: list[RunConfig]
    out: Path | None = None
    """Folder of the records; None where no other process can train the same runs."""
    jobs: int = 1
    """Number of runs at a time, which the launcher sets."""
    done: list[RunConfig] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Causes of failures by run id."""
    interrupted: bool = False
    running: dict[str, RunConfig] = field(default_factory=dict)
    """Runs that the launcher trains, by id."""
    external: dict[str, RunConfig] = field(default_factory=dict)
    """Runs that other processes train, by id."""
    finished_elsewhere: set[str] = field(default_factory=set)
    """Ids of the runs that other processes finished since the board was made."""
    steps: dict[str, int] = field(default_factory=dict)
    """Last known step of each run, by id."""
    fits: dict[str, Fit] = field(default_factory=dict)
    """How the fit of each run with a record became worse, by id."""
    _paces: dict[Group, Pace] = field(default_factory=dict, repr=False)
    """Of the steps that were timed."""
    _waiting_steps: Counter[tuple[Group, int]] = field(default_factory=Counter, repr=False)
    """How many waiting runs of a group have how many steps left; counted again where it is not of
    all of them."""
    _read_seconds: dict[str, float] = field(default_factory=dict, repr=False)
    """Seconds of each run that its record stated when it was last read, by id."""

    @classmethod
    def from_folder(cls, configs: Sequence[RunConfig], out: Path) -> Board:
        """Make the board of ``configs`` and their ERM phases from the records in ``out``."""
        board, runs = cls([], out), with_erm_phases(configs)
        with indexed(out, len(runs)) as read_run:
            for config in runs:
                record = board.read_record(config, read_run)
                if record.status == "done":
                    board.done.append(config)
                elif record.status == "failed":
                    board.failed[config.id] = record.error or "cause not recorded"
                elif cause := board._phase_failure(config):
                    board.failed[config.id] = cause
                else:
                    board.waiting.append(config)
        return board

    @property
    def unfinished(self) -> list[RunConfig]:
        """Every run that is neither done nor failed."""
        return [*self.waiting, *self.running.values(), *self.external.values()]

    @property
    def total(self) -> int:
        """Number of runs in any state."""
        states = self.waiting, self.running, self.external, self.done, self.failed
        return sum(map(len, states))

    def start_next(self) -> RunConfig | None:
        """Move the next run that can start to ``running`` and return it.

        A run waits for its ERM phase, and fails with it. Runs that another process trains are
        passed over until that process releases them; None where no run can start now.
        """
        for other in list(self.external.values()):
            if not self._locked(other):
                self.waiting.insert(0, self.external.pop(other.id))
        while (config := self._next()) is not None:
            if self._locked(config):
                self.external[config.id] = self.running.pop(config.id)
                continue
            record = self.read_record(config)
            if record.status == "unfinished":
                return config
            self.finished_elsewhere.add(config.id)
            self.close(config, RunOutcome(record.status, record.error))
        return None

    def report_step(self, config: RunConfig, step: int, seconds: float) -> None:
        """Record that a run reached ``step``, ``seconds`` after its previous report."""
        self.report_pace(config, seconds, step - self._step(config))
        self.steps[config.id] = step
        if config.id not in self.running:
            self._waiting_steps.clear()

    def read_record(self, config: RunConfig, read_run: ReadRun = read_rows) -> RunRows:
        """Read the record of a run, and report the steps that are new in it.

        A run that cannot be read has failed.
        """
        rows = RunRows(config.id, config)
        if self.out is None:
            return rows
        try:
            rows = read_run(self.out / config.id) or rows
        except (ValueError, OSError) as error:  # fails its run, not the sweep
            return replace(rows, status="failed", error=str(error))
        if rows.steps:
            self.fits[config.id] = fit_of(rows)
        if rows.steps and rows.steps[-1] > self._step(config):
            seconds, before = rows.last("seconds"), self._read_seconds.get(config.id, 0.0)
            seconds = 0.0 if math.isnan(seconds) else seconds  # in imported records
            self.report_step(config, rows.steps[-1], seconds - before)
            self._read_seconds[config.id] = seconds
        return rows

    def report_pace(self, config: RunConfig, seconds: float, steps: int = 1) -> None:
        """Record how long steps of the run's group took."""
        self._paces.setdefault(group_of(config), Pace()).add(seconds, steps)

    def has_pace(self, config: RunConfig) -> bool:
        """Whether steps of the run's group were timed."""
        return group_of(config) in self._paces

    def close(self, config: RunConfig, outcome: RunOutcome) -> None:
        """Record how a running run ended; an interrupted one waits again and stops the sweep."""
        del self.running[config.id]
        if outcome.status == "interrupted":
            self.waiting.insert(0, config)
            self.interrupted = True
        elif outcome.status == "locked":
            self.external[config.id] = config
        elif outcome.status == "done":
            self.done.append(config)
        else:
            self.failed[config.id] = outcome.error or "cause not recorded"

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time until all runs are done; None before any step was timed."""
        if not self._paces:
            return None
        paces = self._paces.values()
        usual = Pace(sum(pace.seconds for pace in paces), sum(pace.units for pace in paces))
        if self._waiting_steps.total() != len(self.waiting):
            self._waiting_steps = Counter(map(self._left, self.waiting))
        started = Counter(map(self._left, [*self.running.values(), *self.external.values()]))
        total, longest = 0.0, 0.0
        for (group, steps), runs in (self._waiting_steps + started).items():  # none of no run
            seconds = self._paces.get(group, usual).seconds_for(steps)
            total, longest = total + runs * seconds, max(longest, seconds)
        return max(total / self.jobs, longest)

    def error_message(self, planned: Sequence[PlannedRun]) -> str | None:
        """Say in one sentence why the sweep is not done; None unless it was stopped or runs failed.

        ``planned`` has the titles of the runs.
        """
        if self.interrupted:
            return f"Interrupted; {len(self.done)} of {self.total} runs are done."
        if not self.failed:
            return None
        titles = {run.config.id: run.title for run in planned}
        id, cause = next(iter(self.failed.items()))
        first = f"{titles.get(id, 'an ERM phase')} ({id}): {cause.rstrip('.')}"
        return f"{len(self.failed)} of {self.total} runs failed; the first: {first}."

    def _next(self) -> RunConfig | None:
        unfinished, place = set[str](), 0
        while place < len(self.waiting):
            config = self.waiting[place]
            if config.pretrain and not unfinished:
                unfinished = {other.id for other in self.unfinished}
            if cause := self._phase_failure(config):
                self._take(place)
                self.failed[config.id] = cause
            elif not config.pretrain or config.erm_phase().id not in unfinished:
                self._take(place)
                self.running[config.id] = config
                return config
            else:
                place += 1
        return None

    def _take(self, place: int) -> None:
        """Remove a waiting run."""
        self._waiting_steps[self._left(self.waiting.pop(place))] -= 1

    def _left(self, config: RunConfig) -> tuple[Group, int]:
        """Group of a run, and its steps that are left."""
        return group_of(config), max(0, config.steps - self._step(config))

    def _locked(self, config: RunConfig) -> bool:
        return self.out is not None and is_locked(self.out / config.id)

    def _phase_failure(self, config: RunConfig) -> str | None:
        phase = config.erm_phase().id if config.pretrain else None
        return f"its ERM phase {phase} failed" if phase in self.failed else None

    def _step(self, config: RunConfig) -> int:
        return self.steps.get(config.id, config.pretrain)


OnChange = Callable[[Board], None]
"""Called with the board before the first run, during runs and after every run."""


@dataclass(frozen=True)
class SweepStatus:
    """Snapshot of a sweep."""

    counts: dict[str, Counter[State]]
    """Number of runs in each state, by method."""
    failed: dict[str, str]
    """Causes of failures by run id."""
    seconds_left: float | None
    """Time left with as many runs at a time as now; None before the first evaluation of a run."""
    inactive: list[str]
    """How many runs of each method never act, and why, one line each."""
    worse_fit: list[str]
    """How many runs of each method fit the training domains less well once it acts, a line each."""
    titles: dict[str, str]
    """Titles of the runs by id."""

    @property
    def total(self) -> Counter[State]:
        """Number of runs of all methods in each state."""
        return sum(self.counts.values(), Counter())

    def to_json(self) -> dict[str, Any]:
        """Status as plain JSON values."""
        methods = {name: {s: count[s] for s in STATES} for name, count in self.counts.items()}
        failures = [
            {"id": id, "title": self.titles.get(id), "error": cause}
            for id, cause in self.failed.items()
        ]
        return {
            **{state: self.total[state] for state in STATES},
            "methods": methods,
            "seconds_left": self.seconds_left,
            "inactive": self.inactive,
            "worse_fit": self.worse_fit,
            "failures": failures,
        }


@imports_nothing
def status_of(planned: Sequence[PlannedRun], out: Path) -> SweepStatus:
    """Read the status of planned runs from the records and locks in ``out``."""
    board = Board.from_folder([run.config for run in planned], out)
    running = {config.id for config in board.waiting if is_locked(out / config.id)}
    board.jobs = max(1, len(running))
    states: dict[str, State] = dict.fromkeys(board.failed, "failed")
    states |= {config.id: "done" for config in board.done}
    for config in board.waiting:
        states[config.id] = "running" if config.id in running else "waiting"
    methods = {run.config.id: variant(run.config) for run in planned}
    counts = {method: Counter[State]() for method in sorted(set(methods.values()))}
    for id, state in states.items():
        counts.setdefault(methods.get(id, ERM_PHASES), Counter())[state] += 1
    never = inactive_runs(run.config for run in planned)
    worse = worse_fit_runs((methods[id], fit) for id, fit in board.fits.items() if id in methods)
    titles = {run.config.id: run.title for run in planned}
    return SweepStatus(counts, dict(board.failed), board.seconds_left, never, worse, titles)
