"""Page data: the content of a report as JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.files import finite
from riskmatch.report import titles
from riskmatch.report.coverage import methods_at_work, missing, unequal
from riskmatch.report.naming import page_title, run_titles
from riskmatch.report.page.details import Details, part_sizes
from riskmatch.report.page.headline import MAX_RUNS, comparison, headline, verdict
from riskmatch.report.page.hyperparameters import hyperparameters
from riskmatch.report.page.selections import PageRuns, select_runs
from riskmatch.report.page.siblings import lost_without_another_domain, pictures_in_common
from riskmatch.report.selected import RowKey, Selected, choices_by_run
from riskmatch.report.stored_runs import read_runs
from riskmatch.runs.records import RunRecord, StoredRun
from riskmatch.trust import imports_nothing

MAX_DETAILED = 12
"""Most test domains of which a run is shown in detail."""
MANY = 1000
"""From so many samples on, one is less than 0.1 points."""
MAX_GAPS = 5
"""More gaps in a sweep are counted instead of listed."""


@imports_nothing
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
    overview, runs, steps = _overview(paths, data_dir)
    details = Details(data_dir, on_progress)
    names = run_titles([run.config for run in runs])
    data = {
        **overview,
        "version": version("riskmatch"),
        "command": command,
        "runs": [
            details.of(run, name, steps.get(run.config.id))
            for run, name in zip(runs, names, strict=True)
        ],
        "notes": [*overview["notes"], *details.notes],
    }
    return dict(finite(data))


def _overview(
    paths: str | Path | Sequence[str | Path], data_dir: Path | None
) -> tuple[dict[str, Any], list[StoredRun], dict[str, int]]:
    """Page data about all runs together, the runs to show in detail, and their chosen steps."""
    page = select_runs(paths)
    runs = runs_in_detail(page)
    overview = {
        "title": page_title(page.runs),
        "kind": "run" if len(page.runs) == 1 else "comparison",
        "verdict": verdict(page) if len(page.runs) > 1 else None,
        "headline": headline(page, runs),
        "comparison": comparison(page) if len(page.runs) > 1 else None,
        "hyperparameters": hyperparameters(page) if len(page.runs) > 2 else [],
        "cautions": [*lost_without_another_domain(page), *pictures_in_common(page, data_dir)],
        "notes": [*weight_of_a_sample(runs), *notes(page, len(runs))],
    }
    return overview, runs, chosen_steps(page)


def chosen_steps(page: PageRuns) -> dict[str, int]:
    """The step that the main rule chooses for every single run, by id."""
    steps: dict[str, int] = {}
    for one in page.by_data:
        chosen = choices_by_run(one.main)
        steps |= zip(chosen["run"], map(int, chosen["step"]), strict=True)
    return steps


def runs_in_detail(page: PageRuns) -> list[StoredRun]:
    """All runs where they are few, else those that the main rule chose for every test domain.

    The first are of the method with the highest average, a run for each test domain and the lowest
    accuracy first; then those of ERM and of the other methods, as far as there is room.
    """
    if len(page.runs) <= MAX_RUNS:
        return read_runs(page.runs)
    ranked = [list(_by_method(one.main)) for one in page.by_data]
    first = {run for methods in ranked if methods for run in methods[0]}
    ids = dict.fromkeys(
        run
        for rank in range(max(map(len, ranked), default=0))
        for methods in ranked
        if rank < len(methods)
        for run in methods[rank]
    )
    number = max(MAX_RUNS, min(MAX_DETAILED, len(first)))
    by_id = page.runs.set_index("run", drop=False)
    return read_runs(by_id.loc[list(islice(ids, number))])


def _by_method(selected: Selected) -> Iterator[list[str]]:
    """Chosen runs by method, best average first and ERM second; the lowest test domain first."""
    chosen = selected.chosen.sort_values("trial", kind="stable")
    levels = chosen.groupby("test_domain")["accuracy"].mean()

    def place(key: RowKey) -> tuple[bool, float]:
        means = [fmean(values) for values in selected.by_domain(key).values() if values]
        return len(means) < len(selected.domains), -fmean(means) if means else 0.0

    best, *others = sorted(selected.rows, key=place)
    for key in (best, *sorted(others, key=lambda key: key.variant != "erm")):
        own = selected.part(key, chosen).drop_duplicates("test_domain").set_index("test_domain")
        yield [
            str(own["run"][domain]) for domain in levels.sort_values().index if domain in own.index
        ]


def weight_of_a_sample(runs: Sequence[StoredRun]) -> list[str]:
    """Points of accuracy that one sample of a small test domain counts; empty if all are large.

    A regression has no accuracy.
    """
    points = {}
    for run in runs:
        if _is_regression(run.record):
            continue
        for domain in run.config.test_domains:
            n = part_sizes(run.record).get(domain, {}).get("train", MANY)
            if n < MANY:
                points[domain] = f"{100 / n:.1f} on {domain} ({n} samples)"
    if not points:
        return []
    return [f"Points of accuracy per sample: {', '.join(points.values())}."]


def _is_regression(record: RunRecord) -> bool:
    scored = [
        score for e in record.evaluations[-1:] for s in e.scores.values() for score in s.values()
    ]
    return bool(scored) and all(math.isnan(score.accuracy) for score in scored)


def notes(page: PageRuns, shown: int) -> list[str]:
    """Remarks on the tables: how runs were read, and which are missing.

    Args:
        page: runs of the report.
        shown: number of runs shown in detail.
    """
    runs, table, plan = page.runs, page.cases, page.results.plan
    lines: list[str] = []
    if shown < len(runs):
        lines.append(
            f"{shown} of {len(runs)} runs are shown in detail, chosen by "
            f"{' or '.join(dict.fromkeys(one.main.rule.name for one in page.by_data))}: one for "
            "each test domain, of the method with the highest average and the lowest test domain "
            "first, then of ERM and others. For another run, give its folder."
        )
    for one in page.compared:
        lines += [f"Pairs with ERM differ in more than the method: {p}." for p in unequal(one.main)]
    if (table["trial"] != table["own_trial"]).any():
        lines.append("Runs that differ only in their seeds count as trials.")
    if minor := [titles.data_title(one.data) for one in page.by_data if not one.is_default]:
        lines.append(f"Methods are not compared on {'; '.join(minor)}, which few runs use.")
    whole = table["test_domains"].map(len) == 0
    if whole.any():
        lines.append(
            f"{whole.sum()} of {len(runs)} runs were trained on all domains: no test domain."
        )
    tested = table[~whole]
    cases = tested["test_domain"].notna().groupby(tested["data"], sort=False).any()
    if mixed := [titles.data_title(str(data)) for data in cases.index[~cases]]:
        lines.append(
            f"Runs on {'; '.join(mixed)} have several test domains and train on different "
            "domains, so they are not compared. For one run, give its folder."
        )
    several = len(page.by_data) > 1
    if len(runs) == 1:  # its findings say the rest
        chosen = [one.main.chosen for one in page.by_data]
        if any(not choices["acts"].all() for choices in chosen):
            lines.append(
                "The chosen step belongs to the warm-up: the method has not acted on the chosen "
                "model."
            )
    else:
        lines += [
            f"{titles.data_title(one.data)}: {line}" if several else line
            for one in page.by_data
            for line in methods_at_work(one.main)
        ]
    unfinished = int((runs["status"] != "done").sum())
    if unfinished:
        is_, its = ("is", "its") if unfinished == 1 else ("are", "their")
        lines.append(
            f"{unfinished} of {len(runs)} runs {is_} unfinished; {its} evaluations so far are "
            "included."
        )
    absent = {config.id for config in plan} - set(runs["run"])
    if absent:
        gaps = [gap for one in page.compared for gap in missing(one.main)]
        listed = f": {'; '.join(gaps)}" if len(gaps) <= MAX_GAPS else ""
        lines.append(f"{len(absent)} of {len(plan)} planned runs are missing{listed}.")
    return [*lines, *page.results.left_out]
