"""Page data: everything a report says of runs, as one value of plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riskmatch.data.progress import OnProgress
from riskmatch.report import titles
from riskmatch.report.findings import headline
from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.compared import compared
from riskmatch.report.findings.details import Details
from riskmatch.report.findings.naming import title_of, titles_of
from riskmatch.report.findings.runs import Found, RunOnFile, find_runs
from riskmatch.selection import choose

SHOWN = 6
"""Runs in detail, at most."""
_FIRST = ("erm", "rdm")
"""The methods that are shown if only some can be."""


def page_data(
    paths: Sequence[Path],
    *,
    data_dir: Path | None = None,
    command: str = "",
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """What a report shows of the runs in some folders.

    Args:
        paths: each the folder of a run, of several runs, of a sweep, or of a reproduction.
        data_dir: where files of data sets are looked for first.
        command: that asked for the report.
        on_progress: told of images that are read, decoded or embedded.

    Returns:
        Plain JSON values; numbers that are not finite are None.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: a record is damaged.
    """
    found = find_runs(paths)
    cases = Cases.of(found)
    chosen = in_detail(found, cases)
    details = Details(data_dir, on_progress)
    names = titles_of([run.config for run in chosen])
    runs = [details.of(run, name) for run, name in zip(chosen, names, strict=True)]
    few = len(found.runs) <= SHOWN
    notes = [*found.damaged, *details.notes]
    if not few:
        notes.insert(0, _left_out(found, chosen))
    data = {
        "title": _title(found, cases),
        "kind": "run" if len(found.runs) == 1 else "comparison",
        "version": version("riskmatch"),
        "command": command,
        "headline": headline.by_run(cases, found.runs) if few else headline.by_method(cases),
        "comparison": compared(cases) if len(found.runs) > 1 else None,
        "runs": runs,
        "notes": notes,
    }
    return dict(_plain(data))


def in_detail(found: Found, cases: Cases) -> list[RunOnFile]:
    """All runs where they are few, else one per method: what train-val chooses.

    All are of one data set, test domain and trial as far as there is a choice.
    """
    if len(found.runs) <= SHOWN:
        return list(found.runs)
    choices = choose(cases.records, "train-val")
    by_method: dict[str, RunOnFile] = {}
    for choice in choices:  # in the order of data set, network, method, test domain and trial
        by_method.setdefault(choice.case.method, cases.origin[choice.run.config.id])
    order = titles.in_order(set(by_method), titles.METHODS)
    kept = sorted(order, key=lambda name: name not in _FIRST)[:SHOWN]
    return [by_method[name] for name in order if name in kept]


def _left_out(found: Found, chosen: Sequence[RunOnFile]) -> str:
    return (
        f"{len(chosen)} of {len(found.runs)} runs are shown in detail: one per method, chosen by "
        "train-val. To see another, name its folder."
    )


def _title(found: Found, cases: Cases) -> str:
    if len(found.runs) == 1:
        return title_of(found.runs[0].config)
    data = " and ".join(titles.DATA.get(name, name) for name in cases.data)
    methods = {run.config.method for run in found.runs}
    if len(methods) == 1:
        (method,) = methods
        return f"{len(found.runs)} runs of {titles.METHODS.get(method, method)} on {data}"
    return f"{len(methods)} methods on {data}"


def _plain(value: Any) -> Any:
    """``value`` with None for every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
