"""Page data: everything a report says of runs, as one value of plain JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riskmatch.data.progress import OnProgress
from riskmatch.report import titles
from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.compared import compared
from riskmatch.report.findings.details import Details
from riskmatch.report.findings.headline import FEW, headline
from riskmatch.report.findings.naming import title_of_all, titles_of
from riskmatch.report.findings.notes import notes_of
from riskmatch.report.findings.plain import plain
from riskmatch.report.findings.runs import Found, RunOnFile, find_runs
from riskmatch.selection import Choice, choose

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
    data = {
        "title": title_of_all([run.config for run in found.runs]),
        "kind": "run" if len(found.runs) == 1 else "comparison",
        "version": version("riskmatch"),
        "command": command,
        "headline": headline(cases, found.runs),
        "comparison": compared(cases) if len(found.runs) > 1 else None,
        "runs": runs,
        "notes": [*notes_of(found, cases, len(chosen)), *details.notes],
    }
    return dict(plain(data))


def in_detail(found: Found, cases: Cases) -> list[RunOnFile]:
    """All runs where they are few, else one per method: what train-val chooses.

    All are of one data set, test domain and trial as far as there is a choice.
    """
    if len(found.runs) <= FEW:
        return list(found.runs)
    choices = choose(cases.records, "train-val")
    shared = Counter(_place(choice) for choice in choices)
    by_method: dict[str, RunOnFile] = {}
    for choice in sorted(choices, key=lambda one: (-shared[_place(one)], one.case)):
        by_method.setdefault(choice.case.method, cases.origin[choice.run.config.id])
    order = titles.in_order(set(by_method), titles.METHODS)
    kept = sorted(order, key=lambda name: name not in _FIRST)[:FEW]
    return [by_method[name] for name in order if name in kept]


def _place(choice: Choice) -> tuple[str, str, str, int]:
    case = choice.case
    return case.data, case.model, case.domain, case.trial
