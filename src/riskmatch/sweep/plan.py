"""The plan of a sweep: a file of JSON lines that one can read, cut and extend.

A line is a run with its whole configuration, from which its id follows; lines can be removed and
moved at will. Lines without a configuration say how those below them were made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riskmatch.files import write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.protocol import Planned

FILE = "plan.jsonl"
RUNS = "runs"
"""The folder of the records, beside the plan."""


def read(folder: Path) -> list[Planned]:
    """The runs of the sweep in ``folder``, each once."""
    path = folder / FILE
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no sweep: it has no {FILE}.")
    found: dict[str, Planned] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            entry = json.loads(line) if line.strip() else {}
            if "config" in entry:
                run = Planned(RunConfig.from_json(entry["config"]), entry["draw"])
                found.setdefault(run.config.id, run)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number}, is no run: {error}") from error
    return list(found.values())


def extend(folder: Path, runs: Sequence[Planned], made_by: str) -> list[Planned]:
    """Add to the plan in ``folder`` those runs that it lacks, and return them.

    What is there stays as it is.

    Args:
        folder: of the sweep; it is made where it is missing.
        runs: the runs.
        made_by: the command that made them.
    """
    path = folder / FILE
    known = {run.config.id for run in read(folder)} if path.exists() else set()
    new = [run for run in runs if run.config.id not in known]
    if new:
        head = {"made by": made_by, "riskmatch": version("riskmatch"), "runs": len(new)}
        lines = [head, *map(_entry, new)]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        folder.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        write_whole(path, before + text.encode())
    return new


def _entry(run: Planned) -> dict[str, Any]:
    return {"title": run.title, "draw": run.draw, "config": run.config.to_json()}
