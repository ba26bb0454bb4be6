"""Page data: the content of a report as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.files import finite
from riskmatch.report import titles
from riskmatch.report.coverage import methods_at_work, missing
from riskmatch.report.naming import page_title, run_titles
from riskmatch.report.page.details import Details
from riskmatch.report.page.headline import MAX_RUNS, comparison, headline
from riskmatch.report.page.selections import PageRuns, select_runs
from riskmatch.report.stored_runs import StoredRun, read_runs

PREFERRED = ("erm", "rdm")
"""Variants shown in detail first, where not all can be."""
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
    # the evaluations of all runs are freed before torch and data sets are loaded
    overview, runs = _overview(paths)
    details = Details(data_dir, on_progress)
    names = run_titles([run.config for run in runs])
    data = {
        **overview,
        "version": version("riskmatch"),
        "command": command,
        "runs": [details.of(run, name) for run, name in zip(runs, names, strict=True)],
        "notes": [*overview["notes"], *details.notes],
    }
    return dict(finite(data))


def _overview(
    paths: str | Path | Sequence[str | Path],
) -> tuple[dict[str, Any], list[StoredRun]]:
    """Page data about all runs together, and the runs to show in detail."""
    page = select_runs(paths)
    runs = runs_in_detail(page)
    overview = {
        "title": page_title(page.runs),
        "kind": "run" if len(page.runs) == 1 else "comparison",
        "headline": headline(page, runs),
        "comparison": comparison(page) if len(page.runs) > 1 else None,
        "notes": notes(page, len(runs)),
    }
    return overview, runs


def runs_in_detail(page: PageRuns) -> list[StoredRun]:
    """All runs where they are few, else one per method as chosen by the main rule.

    The runs share data set, test domain and trial as far as possible.
    """
    if len(page.runs) <= MAX_RUNS:
        return read_runs(page.frame)
    choices = [choice for one in page.by_data for choice in one.main.chosen.to_dict("records")]
    shared = Counter(_setting(choice) for choice in choices)
    run_of: dict[str, str] = {}
    for choice in sorted(choices, key=lambda one: -shared[_setting(one)]):
        run_of.setdefault(choice["variant"], choice["run"])
    order = titles.in_order(set(run_of), titles.METHODS)
    kept = sorted(order, key=lambda name: name not in PREFERRED)[:MAX_RUNS]
    ids = [run_of[name] for name in order if name in kept]
    return read_runs(page.runs.set_index("run", drop=False).loc[ids])


def _setting(choice: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(choice[name] for name in ("data", "model", "test_domain", "trial"))


def notes(page: PageRuns, shown: int) -> list[str]:
    """Remarks on the tables: how runs were read, and which are missing.

    Args:
        page: runs of the report.
        shown: number of runs shown in detail.
    """
    runs, table, plan = page.runs, page.cases, page.results.plan
    lines = []
    if shown < len(runs):
        lines.append(
            f"{shown} of {len(runs)} runs are shown in detail: one per method, chosen by "
            f"{' or '.join(dict.fromkeys(one.main.rule.name for one in page.by_data))}. For "
            "another run, give its folder."
        )
    if (table["trial"] != table["own_trial"]).any():
        lines.append("Runs that differ only in their seeds count as trials.")
    if minor := [titles.data_title(one.data) for one in page.by_data if not one.is_default]:
        lines.append(f"Methods are not compared on {'; '.join(minor)}, which few runs use.")
    cases = table["test_domain"].notna().groupby(table["data"], sort=False).any()
    if mixed := [titles.data_title(str(data)) for data in cases.index[~cases]]:
        lines.append(
            f"Runs on {'; '.join(mixed)} have several test domains and train on different "
            "domains, so they are not compared. For one run, give its folder."
        )
    several = len(page.by_data) > 1
    lines += [
        f"{titles.data_title(one.data)}: {line}" if several else line
        for one in page.by_data
        for line in methods_at_work(one.main)
    ]
    unfinished = int((runs["status"] != "done").sum())
    if unfinished:
        lines.append(
            f"{unfinished} of {len(runs)} runs are not done; their evaluations so far count."
        )
    absent = {config.id for config in plan} - set(runs["run"])
    if absent:
        gaps = [gap for one in page.compared for gap in missing(one.main)]
        listed = f": {'; '.join(gaps)}" if len(gaps) <= MAX_GAPS else ""
        lines.append(f"{len(absent)} of {len(plan)} planned runs are missing{listed}.")
    return [*lines, *page.results.damaged]
