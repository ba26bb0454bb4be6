"""Content of reports, and of the summary that ``riskmatch show`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby, islice, zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from riskmatch.data import OnProgress
from riskmatch.files import finite
from riskmatch.metrics import ACCURACY
from riskmatch.report.density import bin_edges, finite_risks
from riskmatch.report.details import details, part_sizes
from riskmatch.report.facts import (
    Facts,
    lines,
    lost_without_another_domain,
    page_facts,
    pictures_in_common,
)
from riskmatch.report.groups import group_tables
from riskmatch.report.headline import (
    MAX_RUNS,
    comparison,
    differences,
    headline,
    hyperparameters,
    verdict,
)
from riskmatch.report.samples import UNREADABLE, DataCache, predictions_by_step, validation
from riskmatch.report.selected import (
    PageRuns,
    RowKey,
    Selected,
    choices_by_run,
    read_runs,
    select_runs,
)
from riskmatch.report.titles import page_title, part_titles, run_titles
from riskmatch.runs.findings import findings
from riskmatch.runs.lines import Evaluation
from riskmatch.runs.records import StoredRun, checkpoints
from riskmatch.statistics import Unit
from riskmatch.trust import imports_nothing

MAX_DETAILED = 12
"""Most test domains of which a run is shown in detail."""
MANY = 1000
"""From so many samples on, one is less than 0.1 points."""
BINS = 24
"""Bins of the histograms in the terminal."""


@imports_nothing
def page_data(
    paths: str | Path | Sequence[str | Path],
    *,
    metric: str | None = None,
    worst: bool = False,
    by: Sequence[str] = (),
    data_dir: Path | None = None,
    unit: Unit = "domains",
    command: str = "",
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Content of a report about the runs below some paths.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        metric: name of what is compared; None is the primary metric of the runs.
        worst: add the worst test domain to the comparison of methods.
        by: columns of the data; a table shows the metric by group of their values.
        data_dir: folder in which to look for data first.
        unit: what intervals and p-values of gains over ERM generalise over: ``domains`` (these,
            trials vary) or ``new-domain`` (domains vary).
        command: command line to print on the page.
        on_progress: called with the progress of reading, decoding or embedding images.

    Returns:
        Tables, and JSON values in which non-finite numbers are None.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged, none has the metric, their primary metrics differ, or the
            data have no such column.
    """
    # the evaluations of all runs are freed before torch and data sets are loaded
    page = select_runs(paths, metric, unit)
    runs, data = runs_in_detail(page), DataCache(data_dir, on_progress)
    values = {
        **_top(page, runs, worst),
        "hyperparameters": hyperparameters(page) if len(page.runs) > 2 else [],
        "cautions": [
            *(line for one in page.by_data for line in lost_without_another_domain(one.main)),
            *(line for one in page.by_data for line in pictures_in_common(one.main, data_dir)),
        ],
        "notes": notes(page, runs, len(runs)),
        "version": version("riskmatch"),
        "command": command,
        "groups": group_tables(page, by, data),
    }
    steps = {
        str(run): int(step)
        for one in page.by_data
        for run, step in choices_by_run(one.main).set_index("run")["step"].items()
    }
    metric = page.metric
    del page
    values["runs"] = [
        details(run, name, metric, steps.get(run.config.id), data, values["notes"])
        for run, name in zip(runs, run_titles([run.config for run in runs]), strict=True)
    ]
    return dict(finite(values))


def _top(page: PageRuns, runs: Sequence[StoredRun], worst: bool) -> dict[str, Any]:
    """What pages and summaries start with; ``runs`` are those shown in detail."""
    several, metric = len(page.runs) > 1, page.facts
    return {
        "title": page_title(page.runs),
        "metric": {
            "name": page.metric,
            "title": metric.title,
            "higher": metric.higher,
            "percent": metric.percent,
            "decimals": max((one.main.decimals for one in page.by_data), default=1),
        },
        "verdict": verdict(page) if several else {},
        "headline": headline(page, runs),
        "comparison": comparison(page, worst) if several else None,
        "differences": differences(page) if several else [],
    }


def notes(page: PageRuns, runs: Sequence[StoredRun], shown: int) -> list[str]:
    """Notes on a page; of ``runs`` the weight of a sample, and ``shown`` are shown in detail."""
    weight = weight_of_a_sample(runs) if page.metric == ACCURACY else {}
    facts = {**weight, **page_facts(page, shown)}
    return [*lines(facts), *page.results.left_out]


def runs_in_detail(page: PageRuns) -> list[StoredRun]:
    """All runs where they are few, else those that the main rule chose for every test domain.

    The first are of the method with the best average, a run for each test domain and the worst
    first; then those of ERM and of the other methods, as far as there is room.
    """
    if len(page.runs) <= MAX_RUNS:
        return read_runs(page.runs)
    ranked = [list(_by_method(one.main)) for one in page.by_data]
    first = {run for methods in ranked for run in methods[0]}
    by_rank = zip_longest(*ranked, fillvalue=list[str]())
    ids = dict.fromkeys(run for methods in by_rank for method in methods for run in method)
    number = max(MAX_RUNS, min(MAX_DETAILED, len(first)))
    by_id = page.runs.set_index("run", drop=False)
    return read_runs(by_id.loc[list(islice(ids, number))])


def _by_method(selected: Selected) -> Iterator[list[str]]:
    """Chosen runs by method, best average first and ERM second; the worst test domain first."""
    chosen = selected.chosen.sort_values("trial", kind="stable")
    levels = chosen.groupby("test_domain")["value"].mean()

    def place(key: RowKey) -> tuple[bool, float]:
        means = [fmean(values) for values in selected.by_domain(key).values() if values]
        return len(means) < len(selected.domains), -sign * fmean(means) if means else 0.0

    sign = 1 if selected.facts.higher else -1
    worst_first = (sign * levels).sort_values().index
    best, *others = sorted(selected.rows, key=place)
    for key in (best, *sorted(others, key=lambda key: key.variant != "erm")):
        rows = selected.part(key, chosen).drop_duplicates("test_domain").set_index("test_domain")
        yield [str(rows["run"][d]) for d in worst_first if d in rows.index]


def weight_of_a_sample(runs: Sequence[StoredRun]) -> Facts:
    """Points of accuracy that one sample of a small test domain counts; empty if all are large."""
    points = {}
    for run in runs:
        for domain in run.config.test_domains:
            n = part_sizes(run.record).get(domain, {}).get("train", MANY)
            if n < MANY:
                points[domain] = f"{100 / n:.1f} on {domain} ({n} samples)"
    return {f"points of {ACCURACY} per sample": ", ".join(points.values())}


@imports_nothing
def summarise(
    paths: str | Path | Sequence[str | Path],
    *,
    metric: str | None = None,
    worst: bool = False,
    by: Sequence[str] = (),
    data_dir: Path | None = None,
    unit: Unit = "domains",
) -> dict[str, Any]:
    """Summary of the runs below some paths, as ``riskmatch show`` prints it.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        metric: name of what is compared; None is the primary metric of the runs.
        worst: add the worst test domain to the comparison of methods.
        by: columns of the data; a table shows the metric by group of their values.
        data_dir: folder in which to look for data, where only a checkpoint is stored.
        unit: what intervals and p-values of gains over ERM generalise over: ``domains`` (these,
            trials vary) or ``new-domain`` (domains vary).

    Returns:
        ``title``, ``metric`` (its name, title and direction), ``headline`` (table of the metric by
        selection rule), ``notes``, ``groups`` (a table for each data set, with ``by``), and either
        ``verdict``, ``comparison`` (a table) and ``differences`` (several runs) or ``run`` (a
        single run: its domains at the chosen step, histograms of their risks, the worst domain over
        the steps).

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged, none has the metric, their primary metrics differ, or the
            data have no such column.

    See :mod:`riskmatch.report` for an example.
    """
    page = select_runs(paths, metric, unit)
    runs = read_runs(page.runs) if len(page.runs) <= MAX_RUNS else []
    cautions = [line for one in page.by_data for line in lost_without_another_domain(one.main)]
    remarks = [*cautions, *notes(page, runs, len(page.runs))]
    run = _single_run(runs[0], page, data_dir, remarks) if len(runs) == 1 else None
    groups = {"groups": group_tables(page, by, DataCache(data_dir))} if by else {}
    return dict(finite({**_top(page, runs, worst), "run": run, **groups, "notes": remarks}))


def _single_run(
    run: StoredRun, page: PageRuns, data_dir: Path | None, remarks: list[str]
) -> dict[str, Any]:
    """Domains of a run at the step chosen by the main rule, else at the last step."""
    evaluations = run.record.evaluations
    summary: dict[str, Any] = {
        "id": run.config.id,
        "folder": str(run.folder),
        "status": run.record.status,
        "error": run.record.error,
        "test_domains": list(run.config.test_domains),
        "parts": part_titles(run.config.data, run.config.data_options),
        "worst": _worst_periods(evaluations),
    }
    if not evaluations:
        remarks.append("The run has no evaluation yet.")
        return {**summary, "step": None, "checkpoint": None, "domains": {}, "histograms": None}
    remarks += findings(run.record)
    chosen = page.by_data[0].main.chosen
    by_step = {evaluation.step: evaluation for evaluation in evaluations}
    at = evaluations[-1] if chosen.empty else by_step[int(chosen["step"].iloc[0])]
    frame = page.results.evaluations
    (row,) = frame[(frame["run"] == run.config.id) & (frame["step"] == at.step)].to_dict("records")
    return {
        **summary,
        "step": at.step,
        "checkpoint": str(path) if (path := checkpoints(run.folder).get(at.step)) else None,
        "domains": {
            domain: {
                page.metric: {s: row.get(f"{page.metric}/{s}/{domain}") for s in splits},
                "risk": {split: score.risk for split, score in splits.items()},
            }
            for domain, splits in at.scores.items()
        },
        "histograms": _histograms(run, at.step, data_dir, remarks),
    }


def _worst_periods(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Periods of steps in which one training domain had the largest mean risk."""
    named = [e for e in evaluations if e.worst_domain]
    periods = [(domain, list(part)) for domain, part in groupby(named, lambda e: e.worst_domain)]
    return [{"domain": d, "from": part[0].step, "to": part[-1].step} for d, part in periods]


def _histograms(
    run: StoredRun, step: int, data_dir: Path | None, remarks: list[str]
) -> dict[str, Any] | None:
    """Histograms of the validation risks in common bins, at ``step`` if that is stored."""
    try:
        by_step = predictions_by_step(run, DataCache(data_dir), step)
    except UNREADABLE as error:
        remarks.append(f"No histograms of risks: {str(error).rstrip('.')}.")
        return None
    step = step if step in by_step else max(by_step)
    risks = {domain: finite_risks(p) for domain, p in validation(by_step[step]).items()}
    edges = bin_edges(list(risks.values()), BINS)
    shares = {d: np.histogram(r, edges)[0] / max(1, len(r)) for d, r in risks.items()}
    rounded = {domain: values.round(6).tolist() for domain, values in shares.items()}
    return {"step": step, "edges": edges, "shares": rounded}
