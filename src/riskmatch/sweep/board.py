"""What is to run, what runs, what is done, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig

Kind = tuple[str, str, str]
"""Runs of one kind take steps of about one length."""


def kind_of(config: RunConfig) -> Kind:
    """Data set, network, method."""
    return config.data, config.model, config.method


def in_order(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Every run once, after the ERM phases that runs start from."""
    phases = [config.erm_phase() for config in configs if config.pretrain]
    return list({config.id: config for config in [*phases, *configs]}.values())


@dataclass
class Board:
    """The runs of a sweep; a run is told apart by its id.

    Example:
        >>> board = Board([RunConfig("d", ("t",), "erm", steps=10)], jobs=2)
        >>> run = board.take()
        >>> board.stepped(run, step=4, seconds=8.0)
        >>> board.seconds_left
        12.0
    """

    waiting: list[RunConfig]
    jobs: int = 1
    """How many run at a time."""
    done: list[RunConfig] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by id."""
    interrupted: bool = False
    running: dict[str, RunConfig] = field(default_factory=dict)
    """By id."""
    elsewhere: dict[str, RunConfig] = field(default_factory=dict)
    """Those that other processes train, by id."""
    others: set[str] = field(default_factory=set)
    """The ids of those that other processes brought to their end while we looked on."""
    steps: dict[str, int] = field(default_factory=dict)
    """The last step of each run that was begun, by id."""
    spent: dict[Kind, float] = field(default_factory=dict)
    """Seconds in steps; and how many steps those were."""
    taken: dict[Kind, int] = field(default_factory=dict)

    @classmethod
    def of(cls, configs: Sequence[RunConfig], out: Path, jobs: int = 1) -> Board:
        """The runs of ``configs`` and their ERM phases, as they stand in the folder ``out``."""
        board = cls([], jobs)
        for config in in_order(configs):
            found = _standing(out / config.id)
            if found.step:
                board.stepped(config, found.step, found.seconds)
            if found.status == "done":
                board.done.append(config)
            elif found.status == "failed":
                board.failed[config.id] = found.error or "no cause on file"
            elif why := board._phase_failure(config):
                board.failed[config.id] = why
            else:
                board.waiting.append(config)
        return board

    @property
    def left(self) -> list[RunConfig]:
        """Every run that has not come to its end."""
        return [*self.waiting, *self.running.values(), *self.elsewhere.values()]

    @property
    def total(self) -> int:
        """How many runs there are in all."""
        return len(self.left) + len(self.done) + len(self.failed)

    def take(self) -> RunConfig | None:
        """The next run whose ERM phase is done, which then counts as running; None where none is.

        A run whose ERM phase failed fails with it.
        """
        busy = {config.id for config in self.left}
        for config in list(self.waiting):
            if why := self._phase_failure(config):
                self.waiting.remove(config)
                self.failed[config.id] = why
            elif not config.pretrain or config.erm_phase().id not in busy:
                self.waiting.remove(config)
                self.running[config.id] = config
                return config
        return None

    def stepped(self, config: RunConfig, step: int, seconds: float) -> None:
        """Note that a run has reached ``step``, ``seconds`` after we last heard of it."""
        self.time(config, seconds, step - self._step(config))
        self.steps[config.id] = step

    def time(self, config: RunConfig, seconds: float, steps: int = 1) -> None:
        """Note how long steps of runs like this one took."""
        kind = kind_of(config)
        self.spent[kind] = self.spent.get(kind, 0.0) + seconds
        self.taken[kind] = self.taken.get(kind, 0) + steps

    def ended(self, config: RunConfig, error: str | None = None) -> None:
        """Note that a run is done, or why it failed."""
        del self.running[config.id]
        if error is None:
            self.done.append(config)
        else:
            self.failed[config.id] = error

    def put_back(self, config: RunConfig) -> None:
        """Note that a run was interrupted and with it the sweep."""
        self.waiting.insert(0, self.running.pop(config.id))
        self.interrupted = True

    def leave(self, config: RunConfig) -> None:
        """Note that another process trains a run."""
        self.elsewhere[config.id] = self.running.pop(config.id)

    def recall(self, config: RunConfig) -> None:
        """Note that no other process trains a run any more, whatever became of it."""
        self.waiting.insert(0, self.elsewhere.pop(config.id))

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None before the first step was timed."""
        if not self.taken:
            return None
        left = [
            self._pace(config) * max(0, config.steps - self._step(config)) for config in self.left
        ]
        return max(sum(left) / self.jobs, *left, 0.0)

    def _phase_failure(self, config: RunConfig) -> str | None:
        phase = config.erm_phase().id if config.pretrain else None
        return f"its ERM phase {phase} failed" if phase in self.failed else None

    def _step(self, config: RunConfig) -> int:
        return self.steps.get(config.id, config.pretrain)

    def _pace(self, config: RunConfig) -> float:
        """Seconds per step: of the kind, or else of all."""
        kind = kind_of(config)
        if self.taken.get(kind):
            return self.spent[kind] / self.taken[kind]
        return sum(self.spent.values()) / max(1, sum(self.taken.values()))


def _standing(folder: Path) -> records.Standing:
    try:
        return records.standing(folder) or records.Standing()
    except ValueError as error:  # a damaged file stops one run, not the sweep
        return records.Standing("failed", str(error))
