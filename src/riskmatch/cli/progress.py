"""Progress on the error stream: a bar on a terminal, log lines elsewhere, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from riskmatch.files import printable
from riskmatch.pace import Pace, clock
from riskmatch.runs.task import metric_facts

if TYPE_CHECKING:
    import rich.progress
    from typing_extensions import Self

    from riskmatch.engine import Progress
    from riskmatch.runs.config import RunConfig
    from riskmatch.runs.lines import Evaluation, Score
    from riskmatch.sweep import Board, PlannedRun

__all__ = ["Display", "Rate", "RunDisplay", "SweepDisplay", "clock", "start_bar"]

Unit = Literal["images", "samples", "bytes"]

FIRST_LINE, NEXT_LINE = 2.0, 5.0
"""Seconds before the first log line of a task, and between two lines."""
SILENT_SECONDS = 30.0
"""Most seconds without a log line while runs train."""


class Display:
    """Shows one task at a time.

    Args:
        quiet: show nothing.
        unit: what :meth:`progress` counts.

    Example:
        >>> with Display(quiet=True) as display:
        ...     display.progress("decoding", 32, 9991)
    """

    def __init__(self, quiet: bool = False, unit: Unit = "images") -> None:
        self.quiet = quiet
        self.skipped = 0
        """Number of inputs that could not be read."""
        self._terminal = not quiet and sys.stderr.isatty()
        self._bar: rich.progress.Progress | None = None
        self._rate = Rate(unit)
        self._task, self._next_line = "", 0.0
        self._logged_at = time.monotonic()

    def __enter__(self) -> Self:
        self.show("loading")
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def progress(self, task: str, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` units of a task are done."""
        if self.quiet:
            return
        text = self._rate(task, done, total)
        self.show(text, done, total)
        if not self._terminal:
            now, new = time.monotonic(), task != self._task
            if new:
                self._task, self._next_line = task, now + FIRST_LINE
            if done == total or now >= self._next_line or (new and total is None):
                self._next_line = now + NEXT_LINE
                self.log(text)

    def show(self, text: str, done: int = 0, total: int | None = None) -> None:
        """Move the bar, if there is a terminal; without a total it pulses."""
        if self._terminal:
            self._bar = self._bar or start_bar()
            (task,) = self._bar.tasks
            task.total = total  # update() ignores a total of None
            self._bar.update(task.id, completed=done, total=total, description=text)

    def log_if_silent(self, line: str) -> None:
        """Print a line where there is no terminal and the last line is long ago."""
        if not self._terminal and time.monotonic() - self._logged_at >= SILENT_SECONDS:
            self.log(line)

    def log(self, line: str) -> None:
        """Print a line, above the bar."""
        self._logged_at, line = time.monotonic(), printable(line)
        if self._bar is not None:
            self._bar.console.print(line, markup=False, soft_wrap=True)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def skip(self, name: str, cause: str) -> None:
        """Report an input that cannot be read."""
        self.skipped += 1
        self.log(f"skipped {name}: {cause}")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class RunDisplay(Display):
    """Shows the training of one run: every step on a terminal, every evaluation in a log."""

    def __init__(self, config: RunConfig, quiet: bool = False) -> None:
        super().__init__(quiet)
        self._config = config
        self._left, self._text = "", "loading"
        self.last_step: int | None = None
        """Last step that this process trained; None before the first."""

    def step(self, progress: Progress) -> None:
        """Show a step."""
        self.last_step, self._left = progress.step, f"{clock(progress.seconds_left)} left"
        worst = [] if progress.worst_domain is None else [f"worst {progress.worst_domain}"]
        parts = [f"{progress.step}/{progress.steps}", f"loss {progress.loss:.4g}"]
        self._text = " · ".join([*parts, *worst, self._left])
        self.show(self._text, progress.step, progress.steps)
        self.log_if_silent(f"step {self._text}")

    def progress(self, task: str, done: int, total: int | None) -> None:
        """Show the progress of loading data, or of an evaluation."""
        from riskmatch.engine.loop import EVALUATING

        if task != EVALUATING:
            super().progress(task, done, total)
            return
        text = f"{task} {done:,}/{total:,} samples"
        self.show(f"{self._text} · {text}", self.last_step or 0, self._config.steps)
        self.log_if_silent(text)

    def evaluation(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Log an evaluation, unless it belongs to the ERM phase that the run starts from.

        The metric is that of the validation samples, on test domains what tables report.
        """
        if self._terminal or config.id != self._config.id:
            return
        shown: dict[str, Score] = {}
        for name, scores in evaluation.scores.items():
            test = name in config.test_domains
            shown[name + " (test)" * test] = scores["train" if test else "val"]
        recorded = dict.fromkeys(name for score in shown.values() for name in score.metrics)
        metric = config.metric or next(iter(recorded), "risk")
        facts = metric_facts(metric)
        form = ".3f" if facts.percent else ".4g"
        numbers = "  ".join(
            f"{name} {score.metrics.get(metric, score.risk):{form}}"
            for name, score in shown.items()
        )
        self.log(
            f"step {evaluation.step}/{config.steps}  loss {evaluation.loss:.4g}  "
            f"worst {evaluation.worst_domain}  {facts.title} {numbers}  {self._left}"
        )


class SweepDisplay(Display):
    """Shows the training of many runs: a line per finished run and, on a terminal, a bar."""

    def __init__(self, planned: Sequence[PlannedRun] = (), quiet: bool = False) -> None:
        super().__init__(quiet)
        self.planned = list(planned)
        self._titles = {run.config.id: run.title for run in planned}
        self._logged: set[str] | None = None

    @property
    def callbacks(self) -> dict[str, Any]:
        """Arguments of the functions that train many runs."""
        return {"on_plan": self.plan, "on_change": self.change, "on_progress": self.progress}

    def plan(self, runs: Sequence[PlannedRun], note: str = "") -> None:
        """Prepare for training these runs; the first time, log a note on them."""
        if note and not self._titles:
            self.log(note)
        self.planned += runs
        self._titles |= {run.config.id: run.title for run in runs}
        self._logged = None
        self.show("loading")

    def change(self, board: Board) -> None:
        """Show the state of the runs."""
        count = len(board.done) + len(board.failed)
        new = self._logged is None or count > len(self._logged)
        ended = [*(config.id for config in board.done), *board.failed] if new else []
        seconds = board.seconds_left if board.unfinished else 0.0
        left = f"about {clock(seconds)} left" if seconds else "nothing left"
        if seconds is None:
            left = "time left unknown"
        if self._logged is None:
            failed = f", {len(board.failed)} failed" if board.failed else ""
            before = f"{len(board.done)} done{failed} before"
            runs = f"{board.total} run{'s' * (board.total != 1)}"
            self.log(f"{runs} ({before}); {left}, {board.jobs} at a time")
            self._logged = set(ended)
        for id in ended:
            if id not in self._logged:
                self._logged.add(id)
                place = " by another process" if id in board.finished_elsewhere else ""
                state = f"failed: {board.failed[id]}" if id in board.failed else f"done{place}"
                title = self._titles.get(id, "the ERM phase")
                self.log(f"{len(self._logged)}/{board.total}  {title}: {state}  ({left})")
        text = f"{count}/{board.total} runs · {left}"
        self.show(text, count, board.total)
        self.log_if_silent(text)

    def close(self) -> None:
        """Remove the bar, and forget the runs."""
        super().close()
        self._titles = {}


class Rate:
    """Describes a task: how much is done, how fast, and how long the rest takes.

    Example:
        >>> rate = Rate("images")
        >>> rate("decoding images", 32, 9991)
        'decoding images · 32/9,991 images'
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._task = ""
        self._pace, self._reported, self._done = Pace(), 0.0, 0

    def __call__(self, task: str, done: int, total: int | None) -> str:
        """Describe the task after ``done`` of ``total``."""
        now = time.monotonic()
        if task != self._task:  # an earlier process may have done a part
            self._task, self._pace = task, Pace()
        else:
            self._pace.add(now - self._reported, done - self._done)
        self._reported, self._done = now, done
        seconds, new = self._pace.seconds, self._pace.units
        if done == total:
            took = f" in {clock(seconds)}" if seconds >= 1 else ""
            return f"{task} · {self._amount(done)}{took}"
        parts = [task]
        if total is not None:
            parts.append(f"{self._amount(done, bare=True)}/{self._amount(total)}")
        elif done:
            parts.append(self._amount(done))
        if new > 0 and seconds > 0:
            parts.append(f"{self._amount(round(new / seconds))}/s")
            if total is not None:
                parts.append(f"{clock(self._pace.seconds_for(total - done))} left")
        return " · ".join(parts)

    def _amount(self, number: int, bare: bool = False) -> str:
        if self._unit != "bytes":
            return f"{number:,}" if bare else f"{number:,} {self._unit}"
        from rich.filesize import decimal

        return decimal(number)


def start_bar() -> rich.progress.Progress:
    """Show a bar and a text on the last line of the terminal, which ``stop`` removes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    bar.add_task("loading", total=None)
    bar.start()
    return bar
