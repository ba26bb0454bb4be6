"""What is seen of a run while it trains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from riskmatch.cli.progress import Log, Pace, Row, clock

if TYPE_CHECKING:
    from riskmatch.engine.loop import Progress
    from riskmatch.runs.config import RunConfig
    from riskmatch.runs.records import Evaluation


class Watcher:
    """Something that looks at a run; this one looks away."""

    def work(self, what: str, done: int, total: int | None) -> None:
        """While the data is being made ready."""

    def step(self, progress: Progress) -> None:
        """After every step."""

    def evaluation(self, evaluation: Evaluation) -> None:
        """After every evaluation."""

    def close(self) -> None:
        """When the run is over, however it ended."""


class Watch:
    """Passes the steps and evaluations of a run on to every watcher."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.watchers: Sequence[Watcher] = ()
        self.last_step: int | None = None
        """The last step taken by this process; None before the first."""

    def __call__(self, progress: Progress) -> None:
        """Pass on a step."""
        self.last_step = progress.step
        for watcher in self.watchers:
            watcher.step(progress)

    def evaluation(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Pass on an evaluation, unless it is one of the shared ERM phase."""
        if config.id == self.config.id:
            for watcher in self.watchers:
                watcher.evaluation(evaluation)

    def work(self, what: str, done: int, total: int | None) -> None:
        """Tell of what comes before the first step."""
        for watcher in self.watchers:
            watcher.work(what, done, total)

    def close(self) -> None:
        """Close all watchers."""
        for watcher in self.watchers:
            watcher.close()


class Bar(Watcher):
    """A progress bar on the terminal, gone when the run is over."""

    def __init__(self) -> None:
        self._row, self._pace = Row(), Pace("images")

    def work(self, what: str, done: int, total: int | None) -> None:
        """Move the bar."""
        self._row.show(done, total, self._pace(what, done, total))

    def step(self, progress: Progress) -> None:
        """Move the bar."""
        self._row.show(progress.step, progress.steps, " · ".join(_parts(progress)))

    def close(self) -> None:
        """Remove the bar."""
        self._row.close()


class Lines(Watcher):
    """One plain line per evaluation, and now and then before the first, for logs."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._left = ""
        self._log = Log("images")

    def work(self, what: str, done: int, total: int | None) -> None:
        """Print a line now and then."""
        self._log(what, done, total)

    def step(self, progress: Progress) -> None:
        """Remember how long it will take."""
        self._left = clock(progress.seconds_left)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Print the line."""
        accuracy = "  ".join(
            f"{name}{'*' if name in self._config.test_domains else ''} {scores['val'].accuracy:.3f}"
            for name, scores in evaluation.scores.items()
        )
        print(
            f"step {evaluation.step}/{self._config.steps}  loss {evaluation.loss:.4g}  "
            f"worst {evaluation.worst_domain}  accuracy {accuracy}  {self._left} left",
            file=sys.stderr,
            flush=True,
        )


def _parts(progress: Progress) -> list[str]:
    worst = [] if progress.worst_domain is None else [f"worst {progress.worst_domain}"]
    at = f"{progress.step}/{progress.steps}"
    return [at, f"loss {progress.loss:.4g}", *worst, f"{clock(progress.seconds_left)} left"]
