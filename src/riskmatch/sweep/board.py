"""What is to run, what runs, what is done, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from riskmatch import records
from riskmatch.config import RunConfig

COST: Mapping[str, float] = {"coral": 2.0, "iga": 4.0, "mmd": 85.0}
"""A step of a method on whole domains of ColoredMNIST in steps of ERM; of the others, about one.

It counts until the method has been timed here.
"""


def in_order(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Every run once, after the ERM phases that runs start from."""
    phases = [config.erm_phase() for config in configs if config.pretrain]
    return list({config.id: config for config in [*phases, *configs]}.values())


@dataclass
class Board:
    """The runs of an experiment; a run is told apart by its id.

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
    steps: dict[str, int] = field(default_factory=dict)
    """The last step of each run that was begun."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds in steps, by method; and how many steps those were."""
    taken: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, configs: Sequence[RunConfig], out: Path, jobs: int = 1) -> Board:
        """The runs of ``configs`` and their ERM phases, less what is done in the folder ``out``."""
        board = cls([], jobs)
        for config in in_order(configs):
            found = records.find(out / config.id)
            if found and found.evaluations:
                last = found.evaluations[-1]
                board.stepped(config, last.step, last.seconds)
            (board.done if found and found.status == "done" else board.waiting).append(config)
        return board

    @property
    def total(self) -> int:
        """How many runs there are in all."""
        return len(self.waiting) + len(self.running) + len(self.done) + len(self.failed)

    def take(self) -> RunConfig | None:
        """The next run whose ERM phase is done, which then counts as running; None where none is.

        A run whose ERM phase failed fails with it.
        """
        busy = {config.id for config in self.waiting} | set(self.running)
        for config in list(self.waiting):
            phase = config.erm_phase().id if config.pretrain else None
            if phase in self.failed:
                self.waiting.remove(config)
                self.failed[config.id] = f"its ERM phase {phase} failed"
            elif phase not in busy:
                self.waiting.remove(config)
                self.running[config.id] = config
                return config
        return None

    def stepped(self, config: RunConfig, step: int, seconds: float) -> None:
        """Note that a run has reached ``step``, ``seconds`` after we last heard of it."""
        new = step - self._step(config)
        self.steps[config.id] = step
        self.spent[config.method] = self.spent.get(config.method, 0.0) + seconds
        self.taken[config.method] = self.taken.get(config.method, 0) + new

    def ended(self, config: RunConfig, error: str | None = None) -> None:
        """Note that a run is done, or why it failed."""
        del self.running[config.id]
        if error is None:
            self.done.append(config)
        else:
            self.failed[config.id] = error

    def put_back(self, config: RunConfig) -> None:
        """Note that a run was interrupted and with it the experiment."""
        self.waiting.insert(0, self.running.pop(config.id))
        self.interrupted = True

    def time(self, method: str, seconds: float) -> None:
        """Note how long one step of a method took in a trial."""
        self.spent[method] = self.spent.get(method, 0.0) + seconds
        self.taken[method] = self.taken.get(method, 0) + 1

    @property
    def seconds_left(self) -> float | None:
        """An estimate; None before the first step was timed."""
        if not self.taken:
            return None
        left = [
            self._pace(config.method) * (config.steps - self._step(config))
            for config in [*self.waiting, *self.running.values()]
        ]
        return max(sum(left) / self.jobs, *left, 0.0)

    def _step(self, config: RunConfig) -> int:
        return self.steps.get(config.id, config.pretrain)

    def _pace(self, method: str) -> float:
        """Seconds per step."""
        if self.taken.get(method):
            return self.spent[method] / self.taken[method]
        cost = sum(COST.get(name, 1.0) * steps for name, steps in self.taken.items())
        return COST.get(method, 1.0) * sum(self.spent.values()) / max(cost, 1.0)
