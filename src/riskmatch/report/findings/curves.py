"""A run over its steps, as series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riskmatch.runs.records import Evaluation, RunRecord, Split
from riskmatch.selection import domains_of

SPLITS: tuple[Split, ...] = ("train", "val")


def curves(run: RunRecord) -> dict[str, Any]:
    """Accuracy and mean risk by domain and split, loss, terms, penalties and the worst domain."""
    seen = run.evaluations
    return {
        "steps": [evaluation.step for evaluation in seen],
        "accuracy": {d: _series(seen, d, "accuracy") for d in domains_of(run)},
        "risk": {d: _series(seen, d, "risk") for d in domains_of(run)},
        "loss": [evaluation.loss for evaluation in seen],
        "terms": _named([evaluation.terms for evaluation in seen]),
        "raw": _named([evaluation.raw for evaluation in seen]),
        "worst": [evaluation.worst_domain for evaluation in seen],
    }


def _series(seen: Sequence[Evaluation], domain: str, what: str) -> dict[str, list[float | None]]:
    scores = [evaluation.scores.get(domain, {}) for evaluation in seen]
    return {split: [getattr(s.get(split), what, None) for s in scores] for split in SPLITS}


def _named(values: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    names = dict.fromkeys(name for entry in values for name in entry)
    return {name: [entry.get(name) for entry in values] for name in names}
