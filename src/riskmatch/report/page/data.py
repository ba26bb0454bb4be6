"""Page data: the content of a report as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.report import titles
from riskmatch.report.gaps import missing
from riskmatch.report.naming import data_title, page_title, run_titles
from riskmatch.report.page.cases import Cases
from riskmatch.report.page.details import Details
from riskmatch.report.page.headline import MAX_RUNS, comparison, headline
from riskmatch.report.page.runs import RunSet, StoredRun, as_paths, find_runs
from riskmatch.report.rounding import finite
from riskmatch.report.selected import Selected
from riskmatch.selection import Choice, choose

PREFERRED = ("erm", "rdm")
"""Methods shown in detail first, where not all can be."""
MAX_GAPS = 5
"""More gaps in a sweep are counted instead of listed."""


def page_data(
    paths: str | Path | Sequence[str | Path],
    *,
    data_dir: Path | None = None,
    command: str = "",
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Content of a report about the runs below some paths.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        data_dir: folder in which to look for data first.
        command: command line to print on the page.
        on_progress: called with the progress of reading, decoding or embedding images.

    Returns:
        JSON values; non-finite numbers are None.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.
    """
    found = find_runs(as_paths(paths))
    cases = Cases.of(found)
    shown = runs_in_detail(found, cases)
    details = Details(data_dir, on_progress)
    names = run_titles([run.config for run in shown])
    runs = [details.of(run, name) for run, name in zip(shown, names, strict=True)]
    data = {
        "title": page_title([run.config for run in found.runs]),
        "kind": "run" if len(found.runs) == 1 else "comparison",
        "version": version("riskmatch"),
        "command": command,
        "headline": headline(cases, found.runs),
        "comparison": comparison(cases) if len(found.runs) > 1 else None,
        "runs": runs,
        "notes": [*notes(found, cases, len(shown)), *details.notes],
    }
    return dict(finite(data))


def runs_in_detail(found: RunSet, cases: Cases) -> list[StoredRun]:
    """All runs where they are few, else one per method as chosen by train-val.

    The runs share data set, test domain and trial as far as possible.
    """
    if len(found.runs) <= MAX_RUNS:
        return list(found.runs)
    choices = choose(cases.records, "train-val")
    shared = Counter(_setting(choice) for choice in choices)
    by_method: dict[str, StoredRun] = {}
    for choice in sorted(choices, key=lambda one: (-shared[_setting(one)], one.case)):
        by_method.setdefault(choice.case.method, cases.origin[choice.run.config.id])
    order = titles.in_order(set(by_method), titles.METHODS)
    kept = sorted(order, key=lambda name: name not in PREFERRED)[:MAX_RUNS]
    return [by_method[name] for name in order if name in kept]


def _setting(choice: Choice) -> tuple[str, str, str, int]:
    case = choice.case
    return case.data, case.model, case.domain, case.trial


def notes(found: RunSet, cases: Cases, shown: int) -> list[str]:
    """Remarks on the tables: how runs were read, and which are missing.

    Args:
        found: runs of the report.
        cases: the same runs as read for selection.
        shown: number of runs shown in detail.
    """
    lines = []
    if shown < len(found.runs):
        lines.append(
            f"{shown} of {len(found.runs)} runs are shown in detail: one per method, chosen by "
            "train-val. For another run, give its folder."
        )
    if cases.renumbered:
        lines.append("Runs that differ only in their seeds count as trials.")
    minor = [name for name in cases.data if name not in cases.main_data]
    if minor:
        lines.append(f"Methods are not compared on {'; '.join(minor)}, which few runs use.")
    single = {r.config.data for r in cases.records if len(r.config.test_domains) == 1}
    if several := [data_title(name) for name in cases.data if name not in single]:
        lines.append(
            f"Runs on {'; '.join(several)} have several test domains and train on different "
            "domains, so they are not compared. For one run, give its folder."
        )
    unfinished = sum(run.record.status != "done" for run in found.runs)
    if unfinished:
        lines.append(
            f"{unfinished} of {len(found.runs)} runs are not done; their evaluations so far count."
        )
    absent = {config.id for config in found.plan} - {run.config.id for run in found.runs}
    if absent:
        gaps = [
            gap
            for data in cases.main_data
            for gap in missing(Selected.of(cases.records, data, "train-val", cases.plan))
        ]
        listed = f": {'; '.join(gaps)}" if len(gaps) <= MAX_GAPS else ""
        lines.append(f"{len(absent)} of {len(found.plan)} planned runs are missing{listed}.")
    return [*lines, *found.damaged]
