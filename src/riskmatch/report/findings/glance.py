"""What one sees of runs at a glance: the headline, and of a single run its domains at one step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.compared import compared
from riskmatch.report.findings.headline import headline
from riskmatch.report.findings.naming import title_of_all
from riskmatch.report.findings.notes import notes_of
from riskmatch.report.findings.plain import plain
from riskmatch.report.findings.runs import RunOnFile, find_runs
from riskmatch.report.findings.samples import UNREADABLE, validation
from riskmatch.report.findings.snapshots import edges_of, finite_risks
from riskmatch.report.findings.sources import Sources
from riskmatch.runs import predictions
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import Evaluation
from riskmatch.selection import choose

BINS = 24


def glance(paths: Sequence[Path], data_dir: Path | None = None) -> dict[str, Any]:
    """The title, the headline, methods side by side, notes; and ``run`` where there is only one.

    Args:
        paths: as for :func:`~riskmatch.report.findings.page_data`.
        data_dir: where files of data sets are looked for, should a checkpoint be all there is.
    """
    found = find_runs(paths)
    cases = Cases.of(found)
    notes = notes_of(found, cases, shown=len(found.runs))
    alone = found.runs[0] if len(found.runs) == 1 else None
    told = {
        "title": title_of_all([run.config for run in found.runs]),
        "headline": headline(cases, found.runs),
        "comparison": None if alone else compared(cases),
        "run": _one(alone, cases, data_dir, notes) if alone else None,
        "notes": notes,
    }
    return dict(plain(told))


def _one(run: RunOnFile, cases: Cases, data_dir: Path | None, notes: list[str]) -> dict[str, Any]:
    """The domains of a run at the step that train-val takes, else at the last."""
    seen = run.record.evaluations
    told: dict[str, Any] = {
        "id": run.config.id,
        "folder": str(run.folder),
        "status": run.record.status,
        "error": run.record.error,
        "step": None,
        "domains": {},
        "worst": [],
        "histograms": None,
    }
    if not seen:
        notes.append("The run has not been evaluated yet.")
        return told
    chosen = choose(cases.records, "train-val")
    at = seen[[e.step for e in seen].index(chosen[0].evaluation.step)] if chosen else seen[-1]
    return {
        **told,
        "step": at.step,
        "domains": {domain: _scores(at, domain) for domain in at.scores},
        "worst": _spells(seen),
        "histograms": _histograms(run, at.step, data_dir, notes),
    }


def _scores(at: Evaluation, domain: str) -> dict[str, Any]:
    splits = at.scores[domain]
    return {
        "accuracy": {split: score.accuracy for split, score in splits.items()},
        "risk": {split: score.risk for split, score in splits.items()},
    }


def _spells(seen: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Which training domain had the largest mean risk from one step to another."""
    known = [e for e in seen if e.worst_domain]
    spells = [(domain, list(part)) for domain, part in groupby(known, lambda e: e.worst_domain)]
    return [{"domain": d, "from": part[0].step, "to": part[-1].step} for d, part in spells]


def _histograms(
    run: RunOnFile, step: int, data_dir: Path | None, notes: list[str]
) -> dict[str, Any] | None:
    """Of the validation risks, in the same bins for every domain, at this step if it is known."""
    try:
        if step in predictions.steps(run.folder):
            said = {d: s["val"] for d, s in predictions.read(run.folder, step).items()}
        else:
            by_step = validation(run, Sources(data_dir))
            step = max(by_step)
            said = dict(by_step[step])
    except UNREADABLE as error:
        notes.append(f"No histograms of risks: {error}")
        return None
    return {"step": step, **_counts(said)}


def _counts(said: dict[str, Predictions]) -> dict[str, Any]:
    risks = {domain: finite_risks(values) for domain, values in said.items()}
    edges = edges_of(list(risks.values()), BINS)
    shares = {d: np.histogram(r, edges)[0] / max(1, len(r)) for d, r in risks.items()}
    return {"edges": edges, "shares": {d: s.round(6).tolist() for d, s in shares.items()}}
