"""Lock of a run: one process trains it at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from riskmatch.files import try_lock

FILE = "lock"
_PATIENCE = 0.2
"""Seconds to wait for a process that only checks the lock."""


class BusyError(RuntimeError):
    """Another process is training this run."""

    code = 3
    """Exit code of a command that ends with it."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the run in ``folder``; the system releases it when the process ends.

    Raises:
        BusyError: another process holds it.
    """
    with try_lock(folder / FILE, _PATIENCE) as locked:
        if not locked:
            raise BusyError(f"Another process is training the run in {folder}.")
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process is training the run in ``folder``."""
    if not (folder / FILE).exists():
        return False
    try:
        with try_lock(folder / FILE) as locked:
            return not locked
    except OSError:  # no permission, or a link or folder in its place: nobody can hold it
        return False
