"""Summary of runs for the terminal: headline table, and the domains of a single run at one step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from riskmatch.report.naming import page_title
from riskmatch.report.page.cases import Cases
from riskmatch.report.page.data import notes
from riskmatch.report.page.headline import comparison, headline
from riskmatch.report.page.risks import bin_edges, finite_risks
from riskmatch.report.page.runs import StoredRun, as_paths, find_runs
from riskmatch.report.page.samples import (
    UNREADABLE,
    DataCache,
    stored_validation,
    validation_predictions,
)
from riskmatch.report.rounding import finite
from riskmatch.runs import predictions
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import Evaluation
from riskmatch.selection import choose

BINS = 24


def summarise(
    paths: str | Path | Sequence[str | Path], *, data_dir: Path | None = None
) -> dict[str, Any]:
    """Summary of the runs below some paths, as ``riskmatch show`` prints it.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        data_dir: folder in which to look for data, where only a checkpoint is stored.

    Returns:
        JSON values: ``title``, ``headline`` (accuracy by selection rule), ``notes``, and either
        ``comparison`` (several runs) or ``run`` (a single run: its domains at the step chosen by
        train-val, histograms of their risks, the worst domain over the steps).

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.

    Example:
        >>> summarise("runs")["headline"]["rows"]  # doctest: +SKIP
        [['ERM on colored-digits without 0.1', '0.1', 10.0, 12.5, 300]]
    """
    found = find_runs(as_paths(paths))
    cases = Cases.of(found)
    remarks = notes(found, cases, shown=len(found.runs))
    single = found.runs[0] if len(found.runs) == 1 else None
    summary = {
        "title": page_title([run.config for run in found.runs]),
        "headline": headline(cases, found.runs),
        "comparison": None if single else comparison(cases),
        "run": _single_run(single, cases, data_dir, remarks) if single else None,
        "notes": remarks,
    }
    return dict(finite(summary))


def _single_run(
    run: StoredRun, cases: Cases, data_dir: Path | None, remarks: list[str]
) -> dict[str, Any]:
    """Domains of a run at the step chosen by train-val, else at the last step."""
    evaluations = run.record.evaluations
    summary: dict[str, Any] = {
        "id": run.config.id,
        "folder": str(run.folder),
        "status": run.record.status,
        "error": run.record.error,
        "step": None,
        "domains": {},
        "worst": [],
        "histograms": None,
    }
    if not evaluations:
        remarks.append("The run has no evaluation yet.")
        return summary
    chosen = choose(cases.records, "train-val")
    by_step = {evaluation.step: evaluation for evaluation in evaluations}
    at = by_step[chosen[0].evaluation.step] if chosen else evaluations[-1]
    return {
        **summary,
        "step": at.step,
        "domains": {domain: _scores(at, domain) for domain in at.scores},
        "worst": _worst_periods(evaluations),
        "histograms": _histograms(run, at.step, data_dir, remarks),
    }


def _scores(at: Evaluation, domain: str) -> dict[str, Any]:
    splits = at.scores[domain]
    return {
        "accuracy": {split: score.accuracy for split, score in splits.items()},
        "risk": {split: score.risk for split, score in splits.items()},
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
        if step in predictions.steps(run.folder):
            by_domain = stored_validation(run, step)
        else:
            by_step = validation_predictions(run, DataCache(data_dir))
            step = max(by_step)
            by_domain = dict(by_step[step])
    except UNREADABLE as error:
        remarks.append(f"No histograms of risks: {error}")
        return None
    return {"step": step, **_shares(by_domain)}


def _shares(by_domain: dict[str, Predictions]) -> dict[str, Any]:
    risks = {domain: finite_risks(values) for domain, values in by_domain.items()}
    edges = bin_edges(list(risks.values()), BINS)
    shares = {d: np.histogram(r, edges)[0] / max(1, len(r)) for d, r in risks.items()}
    return {"edges": edges, "shares": {d: s.round(6).tolist() for d, s in shares.items()}}
