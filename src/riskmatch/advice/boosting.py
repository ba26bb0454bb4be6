"""Gradient boosting on tables, left-out domains scored as those of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from riskmatch import data
from riskmatch.advice.judging import BOOSTING
from riskmatch.data import OnProgress
from riskmatch.data.table import TableDomains
from riskmatch.engine.data_identity import identity_of
from riskmatch.files import read_file, to_json, write_whole

SETTINGS: tuple[Mapping[str, Any], ...] = (
    {},
    {"learning_rate": 0.05, "max_leaf_nodes": 15},
    {"learning_rate": 0.05, "max_leaf_nodes": 63, "l2_regularization": 1.0},
)
"""Settings that are searched, the defaults of scikit-learn first."""
MAX_CATEGORIES = 255
"""Most values of a column of categories; others are treated as numbers."""

Scores = Mapping[str, Mapping[str, float]]
"""Accuracies by domain and split."""


def boosting_accuracies(
    table: TableDomains,
    left_out: Iterable[tuple[str, ...]],
    file: Path,
    *,
    leave_one_out: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, float]:
    """Accuracy of scikit-learn's HistGradientBoostingClassifier on every domain left out.

    Splits, selection and the reported part of a domain are those of runs in trial 0. Scores are
    kept in ``file``, so that a call that was interrupted continues.

    Args:
        table: the table.
        left_out: sets of domains to leave out.
        file: JSON file of the scores.
        leave_one_out: choose settings by domains left out besides, else by the validation splits.
        on_progress: called before every model.
    """
    store = _Store(table, file, on_progress)
    accuracies: dict[str, float] = {}
    for group in left_out:
        training = [name for name in table.names if name not in group]

        def score(setting: int, group: tuple[str, ...] = group, names: Any = training) -> float:
            if leave_one_out:
                return fmean(store((*group, other), setting)[other]["train"] for other in names)
            return fmean(store(group, setting)[name]["val"] for name in names)

        best = store(group, max(range(len(SETTINGS)), key=score))
        accuracies |= {domain: best[domain]["train"] for domain in group}
    return accuracies


class _Store:
    """Scores of models by the domains that they left out, computed once."""

    def __init__(self, table: TableDomains, file: Path, on_progress: OnProgress | None) -> None:
        self._file, self._on_progress = file, on_progress or data.no_progress
        self._parts = {
            domain.name: {
                split: (part.x[:].numpy(), part.y.numpy())
                for split, part in data.split(domain, 0).items()
            }
            for domain in table.domains
        }
        sizes = [len(table.texts.get(column.name, ())) for column in table.columns]
        self._categories = [0 < size <= MAX_CATEGORIES for size in sizes]
        self._identity = json.loads(to_json([identity_of(table).to_json(), SETTINGS]))
        self._scores: dict[str, Scores] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: start again
            stored = json.loads(read_file(file))
            if stored["identity"] == self._identity:
                self._scores = dict(stored["scores"])

    def __call__(self, left_out: Iterable[str], setting: int) -> Scores:
        names = sorted(left_out)
        key = json.dumps([names, setting])
        if key not in self._scores:
            self._on_progress(f"{BOOSTING} without {' and '.join(names)}", 0, None)
            self._scores[key] = self._train(names, SETTINGS[setting])
            values = {"identity": self._identity, "scores": self._scores}
            write_whole(self._file, to_json(values).encode())
        return self._scores[key]

    def _train(self, left_out: list[str], setting: Mapping[str, Any]) -> Scores:
        from sklearn.ensemble import (  # type: ignore[import-untyped]
            HistGradientBoostingClassifier,
        )

        training = [self._parts[name]["train"] for name in self._parts if name not in left_out]
        x, y = (np.concatenate(part) for part in zip(*training, strict=True))
        model = HistGradientBoostingClassifier(
            categorical_features=self._categories, random_state=0, **setting
        ).fit(x, y)
        scores: dict[str, dict[str, float]] = {name: {} for name in self._parts}
        for name, split in product(self._parts, ("train", "val")):
            inputs, labels = self._parts[name][split]
            scores[name][split] = float(np.mean(model.predict(inputs) == labels))
        return scores
