"""Work that takes a while, as it is seen on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from riskmatch.data.progress import OnProgress

Unit = Literal["images", "bytes"]

SOON, OFTEN = 2.0, 5.0
"""Seconds before the first line of a piece of work, and from one line to the next."""


@contextmanager
def progress(unit: Unit, quiet: bool = False) -> Iterator[OnProgress | None]:
    """Whom to tell of the work: a row on a terminal, lines elsewhere, nobody where ``quiet``."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield Log(unit)
    else:
        row, pace = Row(), Pace(unit)
        try:
            yield lambda what, done, total: row.show(done, total, pace(what, done, total))
        finally:
            row.close()


class Pace:
    """Work in words: what is done, how much of it, how fast, and how long it will still take.

    Example:
        >>> pace = Pace("images")
        >>> pace("decoding images", 32, 9991)
        'decoding images · 32/9,991 images'
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._what = ""
        self._begun = 0.0
        self._before = 0

    def __call__(self, what: str, done: int, total: int | None) -> str:
        """After ``done`` of ``total``."""
        now = time.monotonic()
        if what != self._what:  # whatever is done already, an earlier process did
            self._what, self._begun, self._before = what, now, done
        seconds, news = now - self._begun, done - self._before
        if done == total:
            took = f" in {clock(seconds)}" if seconds >= 1 else ""
            return f"{what} · {self._amount(done)}{took}"
        words = [what]
        if total is not None:
            words.append(f"{self._amount(done, bare=True)}/{self._amount(total)}")
        elif done:
            words.append(self._amount(done))
        if news > 0 and seconds > 0:
            words.append(f"{self._amount(round(news / seconds))}/s")
            if total is not None:
                words.append(f"{clock(seconds * (total - done) / news)} left")
        return " · ".join(words)

    def _amount(self, number: int, bare: bool = False) -> str:
        if self._unit == "images":
            return f"{number:,}" if bare else f"{number:,} images"
        from rich.filesize import decimal

        return decimal(number)


class Log:
    """A line now and then, and one when a piece of work is done."""

    def __init__(self, unit: Unit) -> None:
        self._pace = Pace(unit)
        self._what = ""
        self._due = 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Print a line, if it is time."""
        now, words = time.monotonic(), self._pace(what, done, total)
        begins = what != self._what
        if begins:
            self._what, self._due = what, now + SOON
        if done == total or now >= self._due or (begins and total is None):
            self._due = now + OFTEN
            print(words, file=sys.stderr, flush=True)


class Row:
    """A bar and words on one row of the terminal, gone when it is closed."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._total: int | None = None
        self._task = self._bar.add_task("loading", total=None)
        self._bar.start()

    def show(self, done: int, total: int | None, words: str) -> None:
        """Move the bar; without a total it swings."""
        if total is None and self._total is not None:  # which an update cannot do
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(words, total=None)
        self._total = total
        self._bar.update(self._task, completed=done, total=total, description=words)

    def close(self) -> None:
        """Remove it."""
        self._bar.stop()


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any.

    Example:
        >>> clock(75), clock(3600)
        ('1:15', '1:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
