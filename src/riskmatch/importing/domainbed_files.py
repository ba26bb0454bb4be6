"""Where the logs of a sweep are, and what is wrong with them."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

FILE = "results.jsonl"
_NAMES = (FILE, f"{FILE}.gz")
_OUTPUT = ("out.txt", "err.txt")
"""What a run leaves from its start."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file, with some of its lines, or with the folder of a run."""

    path: Path
    reason: str
    lines: tuple[int, ...] = ()
    """From 1; none where it is about the whole file."""

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.path}: {self.reason}"
        few = ", ".join(map(str, self.lines[:3])) + " …" * (len(self.lines) > 3)
        return f"{self.path}, line{'s' * (len(self.lines) > 1)} {few}: {self.reason}"


def find_logs(source: Path) -> tuple[list[Path], list[Fault]]:
    """Every log below a folder, behind links too; and the folders of runs that left none."""
    logs: list[Path] = []
    faults: list[Fault] = []
    seen: set[str] = set()
    for name, inside, files in os.walk(source, followlinks=True):
        place, folder = os.path.realpath(name), Path(name)
        if place in seen:  # a link back, or a second link
            inside.clear()
            continue
        seen.add(place)
        inside.sort()
        here = [folder / log for log in _NAMES if log in files or log in inside]
        if not here and not set(_OUTPUT).isdisjoint(files):
            faults.append(Fault(folder, f"left out: no {FILE}; the run crashed, or has just begun"))
        logs += here
    return logs, faults


def read_log(path: Path) -> bytes:
    """What a log says, unpacked.

    Raises:
        OSError: it cannot be opened, or not unpacked.
    """
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise OSError(f"cannot be unpacked: {error}") from error
