"""What is seen of many runs while they train."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from riskmatch.cli.progress import Log, Pace, clock

if TYPE_CHECKING:
    from riskmatch.sweep.board import Board


class Shown:
    """One line when it begins and one per finished run; on a terminal, a bar below them."""

    def __init__(self, titles: Mapping[str, str], quiet: bool) -> None:
        """The runs by id, each in a line."""
        self._titles = titles
        self._quiet = quiet
        self._told: set[str] | None = None
        self._bar: Any = None
        self._pace, self._log = Pace("images"), Log("images")

    def __enter__(self) -> Shown:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = BarColumn(bar_width=24), TextColumn("{task.description}")
            console = Console(stderr=True, highlight=False)
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task("loading", total=None)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def loading(self, what: str, done: int, total: int | None) -> None:
        """Show how far the data set is, before the first run."""
        if self._bar is not None:
            text = self._pace(what, done, total)
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=text)
        elif not self._quiet:
            self._log(what, done, total)

    def __call__(self, board: Board) -> None:
        """Show how far the runs are."""
        if self._quiet:
            return
        over = [*(config.id for config in board.done), *board.failed]
        if self._told is None:
            self._say(
                f"{board.total} runs, {len(over)} of them done before; "
                f"{_left(board)} at {board.jobs} at a time"
            )
            self._told = set(over)
        for id in over:
            if id not in self._told:
                self._told.add(id)
                done = "done elsewhere" if id in board.finished_elsewhere else "done"
                state = "failed: " + board.failed[id] if id in board.failed else done
                title = self._titles.get(id, "the ERM phase")
                self._say(f"{len(self._told)}/{board.total}  {title}: {state}  ({_left(board)})")
        if self._bar is not None:
            finished = board.total - len(board.unfinished)
            text = f"{finished}/{board.total} runs · {_left(board)}"
            self._bar.update(
                self._bar.task_ids[0], completed=finished, total=board.total, description=text
            )

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _left(board: Board) -> str:
    return "nothing left" if not board.seconds_left else f"about {clock(board.seconds_left)} left"
