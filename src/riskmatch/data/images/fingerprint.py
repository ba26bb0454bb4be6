"""What is in files, without reading again those that have not changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from riskmatch.data.progress import OnProgress
from riskmatch.durable import write_whole

SETTLED = 2.0
"""Seconds after which a change must show in a file's time of modification."""

_NOTHING = (-1, -1, "")


def content_hashes(
    root: Path, paths: Sequence[str], notes: Path, on_progress: OnProgress
) -> list[str]:
    """The SHA-256 of every file of ``paths`` under ``root``, in hexadecimal digits.

    Args:
        root: of the relative ``paths``.
        paths: in any order.
        notes: a file that keeps the hashes with each file's size and time of modification; a file
            with the same size and time is not read again.
        on_progress: told of every file.
    """
    known = _read(notes)
    settled = time.time_ns() - int(SETTLED * 1e9)
    stamps = {path: _stamp(root / path) for path in paths}
    changed = [path for path in paths if known.get(path, _NOTHING)[:2] != stamps[path]]
    found = {path: known[path] for path in paths if path in known}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(lambda path: _sha256(root / path), changed)
        for done, (path, digest) in enumerate(zip(changed, digests, strict=True), 1):
            found[path] = (*stamps[path], digest)
            on_progress("reading images", done, len(changed))
    if news := {path: found[path] for path in changed if stamps[path][1] < settled}:
        write_whole(notes, json.dumps({**known, **news}).encode())
    return [found[path][2] for path in paths]


def _stamp(file: Path) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read(notes: Path) -> dict[str, tuple[int, int, str]]:
    try:
        return {
            path: (note[0], note[1], note[2])
            for path, note in json.loads(notes.read_bytes()).items()
        }
    except FileNotFoundError:
        return {}
