"""Runs on disk: find the folder of a run, read records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from riskmatch.runs import records
from riskmatch.runs.records import StoredRun

if TYPE_CHECKING:
    import pandas as pd


def read_runs(frame: pd.DataFrame) -> list[StoredRun]:
    """Read the records of the runs in a data frame of :func:`riskmatch.results`, in its order."""
    folders = map(Path, frame.drop_duplicates("run")["folder"])
    return [StoredRun(folder, records.read(folder)) for folder in folders]


def find_run(name: str | None, out: Path) -> Path:
    """Folder of a run, by path or by the first digits of its id; None gives the newest run.

    Args:
        name: path, first digits of an id, or None.
        out: folder of the runs.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: the digits fit several runs.
    """
    if name is None:
        files = list(out.glob(f"*/{records.FILE}"))
        if not files:
            raise FileNotFoundError(
                f"There is no run in {out}/. Name one, or train one: riskmatch train"
            )
        return max(files, key=lambda file: file.stat().st_mtime).parent
    if Path(name).exists():
        return Path(name)
    matches = sorted(path for path in out.glob(f"{name}*") if path.is_dir())
    if not matches:
        raise FileNotFoundError(f"There is no folder {name}, and no run of that id in {out}/.")
    if len(matches) > 1:
        raise ValueError(f"{len(matches)} runs in {out}/ start with {name}; give more digits.")
    return matches[0]
