"""Files that survive the death of their writer, and locks that end with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, and is on the disk when this returns."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    # The new name is durable once the folder that holds it is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file; it is on the disk when this returns."""
    with open(path, "ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the only process to hold the file ``path``; the system lets go at our death.

    ``waiting`` is called once where another process holds it.
    """
    import fcntl  # POSIX only

    with open(path, "w") as lock:
        if not hold(lock):
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hold(lock: IO[str]) -> bool:
    """Hold an open file unless another process does; returns whether we do."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
