"""One process per run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BusyError(RuntimeError):
    """Another process is training this run."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder of a run, or raise :class:`BusyError`; the system lets go at our death."""
    import fcntl  # POSIX only

    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(f"Another process is training the run in {folder}.") from error
        yield


def held(folder: Path) -> bool:
    """Whether a process is training the run in ``folder``."""
    import fcntl

    try:
        with open(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:  # not even begun
        return False
    except BlockingIOError:
        return True
    return False
