"""What is in files, without reading again those that have not changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from riskmatch.data.progress import OnProgress
from riskmatch.files import write_whole

SETTLED = 2.0
"""Seconds after which a change must show in a file's times."""

Stamp = tuple[int, int, int, int]
"""What tells that a file has changed, without reading it: its size, the times of modification and
of change, its number. The last two betray files that were exchanged by ``mv`` or ``cp -p``."""


def content_hashes(
    root: Path, paths: Sequence[str], notes: Path, on_progress: OnProgress
) -> list[str]:
    """The SHA-256 of every file of ``paths`` under ``root``, in hexadecimal digits.

    Args:
        root: of the relative ``paths``.
        paths: in any order.
        notes: a file that keeps the hashes with each file's stamp; a file with the same stamp is
            not read again.
        on_progress: told of every file.
    """
    known = _read(notes)
    settled = time.time_ns() - int(SETTLED * 1e9)
    stamps = {path: _stamp(root / path) for path in paths}
    hashes = {
        path: digest
        for path, (*stamp, digest) in known.items()
        if path in stamps and tuple(stamp) == stamps[path]
    }
    changed = [path for path in paths if path not in hashes]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(lambda path: _sha256(root / path), changed)
        for done, (path, digest) in enumerate(zip(changed, digests, strict=True), 1):
            hashes[path] = digest
            on_progress("reading images", done, len(changed))
    if news := {
        path: (*stamps[path], hashes[path]) for path in changed if max(stamps[path][1:3]) < settled
    }:
        write_whole(notes, json.dumps({**known, **news}).encode())
    return [hashes[path] for path in paths]


def _stamp(file: Path) -> Stamp:
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read(notes: Path) -> dict[str, list[Any]]:
    """By path, the stamp and the hash."""
    try:
        known: dict[str, list[Any]] = json.loads(notes.read_bytes())
    except FileNotFoundError:
        return {}
    return known
