"""Write files atomically and durably, lock them across processes, and encode JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["append_line", "file_lock", "finite", "to_json", "try_lock", "write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, and is on disk when this returns."""
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
    if os.name == "nt":  # folders cannot be opened
        return
    # The new name is durable once its folder is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def append_line(path: Path, line: str) -> None:
    """Append a line to a file; it is on disk when this returns."""
    with open(path, "ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def file_lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``, which the system releases when the process ends.

    ``waiting`` is called once if another process holds it.
    """
    with try_lock(path) as locked:
        if locked:
            yield
            return
    waiting()
    with try_lock(path, timeout=None):
        yield


@contextmanager
def try_lock(path: Path, timeout: float | None = 0.0) -> Iterator[bool]:
    """Hold the lock file ``path`` if it is free within ``timeout`` seconds; None waits forever.

    Yields:
        Whether this process holds the lock.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=-1 if timeout is None else timeout)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def to_json(value: Any, indent: int | None = None) -> str:
    """Encode a value as JSON, with null for numbers that are not finite.

    Example:
        >>> to_json({"risk": [1.5, float("nan")], "n": (3,)})
        '{"risk": [1.5, null], "n": [3]}'
    """
    return json.dumps(finite(value), allow_nan=False, ensure_ascii=False, indent=indent)


def finite(value: Any, digits: int | None = None) -> Any:
    """Replace numbers that are not finite by None, in mappings, lists, tuples and arrays too.

    Floats are rounded to ``digits`` significant digits, where given.

    Example:
        >>> finite({"risk": (1 / 3, float("nan")), "n": 3}, digits=2)
        {'risk': [0.33, None], 'n': 3}
    """
    if hasattr(value, "tolist"):  # an array, or one of its values
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: finite(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry, digits) for entry in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")
