"""Summary of runs for the terminal: headline table, and the domains of a single run at one step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from riskmatch.files import finite
from riskmatch.report.density import bin_edges, finite_risks
from riskmatch.report.naming import page_title
from riskmatch.report.page.data import notes, weight_of_a_sample
from riskmatch.report.page.headline import MAX_RUNS, comparison, headline, verdict
from riskmatch.report.page.samples import (
    UNREADABLE,
    DataCache,
    predictions_by_step,
    validation,
)
from riskmatch.report.page.selections import PageRuns, select_runs
from riskmatch.report.page.siblings import lost_without_another_domain
from riskmatch.report.stored_runs import read_runs
from riskmatch.report.titles import part_titles
from riskmatch.runs.findings import findings
from riskmatch.runs.records import StoredRun, checkpoints
from riskmatch.runs.scores import Evaluation
from riskmatch.trust import imports_nothing

BINS = 24


@imports_nothing
def summarise(
    paths: str | Path | Sequence[str | Path], *, data_dir: Path | None = None
) -> dict[str, Any]:
    """Summary of the runs below some paths, as ``riskmatch show`` prints it.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        data_dir: folder in which to look for data, where only a checkpoint is stored.

    Returns:
        JSON values: ``title``, ``headline`` (accuracy by selection rule), ``notes``, and either
        ``comparison`` (several runs) or ``run`` (a single run: its domains at the chosen step,
        histograms of their risks, the worst domain over the steps).

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.

    See :mod:`riskmatch.report` for an example.
    """
    page = select_runs(paths)
    runs = read_runs(page.runs) if len(page.runs) <= MAX_RUNS else []
    remarks = [
        *lost_without_another_domain(page),
        *weight_of_a_sample(runs),
        *notes(page, shown=len(page.runs)),
    ]
    single = runs[0] if len(runs) == 1 else None
    summary = {
        "title": page_title(page.runs),
        "verdict": None if single else verdict(page),
        "headline": headline(page, runs),
        "comparison": None if single else comparison(page),
        "run": _single_run(single, page, data_dir, remarks) if single else None,
        "notes": remarks,
    }
    return dict(finite(summary))


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
        "step": None,
        "checkpoint": None,
        "domains": {},
        "parts": part_titles(run.config.data),
        "worst": [],
        "histograms": None,
    }
    if not evaluations:
        remarks.append("The run has no evaluation yet.")
        return summary
    remarks += findings(run.record)
    chosen = page.by_data[0].main.chosen
    by_step = {evaluation.step: evaluation for evaluation in evaluations}
    at = evaluations[-1] if chosen.empty else by_step[int(chosen["step"].iloc[0])]
    return {
        **summary,
        "step": at.step,
        "checkpoint": str(path) if (path := checkpoints(run.folder).get(at.step)) else None,
        "domains": {
            domain: {
                "accuracy": {split: score.accuracy for split, score in splits.items()},
                "risk": {split: score.risk for split, score in splits.items()},
            }
            for domain, splits in at.scores.items()
        },
        "worst": _worst_periods(evaluations),
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
