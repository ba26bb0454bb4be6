"""Where data sets lie on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "RISKMATCH_DATA"
"""The environment variable that names the folder of data sets."""


def cache_folder() -> Path:
    """The folder for what can be fetched again: ``$XDG_CACHE_HOME``, or the platform's own."""
    if said := os.environ.get("XDG_CACHE_HOME"):
        base = Path(said)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path.home() / ".cache"
    return base / "riskmatch"


def places(name: str, root: Path | None = None) -> tuple[Path, ...]:
    """The folders in which to look for the files ``name``, the first that has them wins.

    First ``root`` and its folder ``name``, then the folder ``name`` of the one that the variable
    ``RISKMATCH_DATA`` names, then that of the cache, which ``riskmatch data get`` fills.

    Example:
        >>> [str(place) for place in places("mnist", Path("data"))][:2]
        ['data/mnist', 'data']
    """
    told = (root / name, root) if root else ()
    return (*told, *(base / name for base in bases()))


def bases(root: Path | None = None) -> tuple[Path, ...]:
    """The folders of data sets: ``root``, the one that ``RISKMATCH_DATA`` names, the cache."""
    said = os.environ.get(VARIABLE)
    return (*((root,) if root else ()), *((Path(said),) if said else ()), cache_folder())
