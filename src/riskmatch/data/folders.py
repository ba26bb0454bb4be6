"""Folders in which data sets are searched for and cached."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "RISKMATCH_DATA"
"""Environment variable with the folder of data sets."""


def cache_folder() -> Path:
    """The folder for files that can be recreated: ``$XDG_CACHE_HOME`` or the platform's default."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        base = Path(given)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path.home() / ".cache"
    return base / "riskmatch"


def data_folders(data_dir: Path | None = None) -> tuple[Path, ...]:
    """Folders of data sets in search order: ``data_dir``, ``$RISKMATCH_DATA``, the cache."""
    given = os.environ.get(VARIABLE)
    return (
        *((data_dir,) if data_dir else ()),
        *((Path(given),) if given else ()),
        cache_folder(),
    )


def candidate_folders(name: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """Folders that may hold the files ``name``, in search order.

    ``data_dir/name``, ``data_dir`` itself, then the folder ``name`` of every other data folder.

    Example:
        >>> [str(folder) for folder in candidate_folders("mnist", Path("data"))][:2]
        ['data/mnist', 'data']
    """
    given = (data_dir / name, data_dir) if data_dir else ()
    return (*given, *(base / name for base in data_folders()))
