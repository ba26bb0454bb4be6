"""Gradient boosting on tables, left-out domains scored as those of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from riskmatch import data
from riskmatch.advice.judging import BOOSTING
from riskmatch.data import OnProgress
from riskmatch.data.splits import splits
from riskmatch.data.table import TableDomains
from riskmatch.engine.data_identity import identity_of
from riskmatch.files import read_file, to_json, write_whole
from riskmatch.metrics import ACCURACY, find_metric
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import frame_of
from riskmatch.runs.lines import Evaluation, Score, Split
from riskmatch.runs.records import RunRecord
from riskmatch.runs.task import TaskFacts
from riskmatch.selection import choose

SETTINGS: tuple[Mapping[str, Any], ...] = (
    {},
    {"learning_rate": 0.05, "max_leaf_nodes": 15},
    {"learning_rate": 0.05, "max_leaf_nodes": 63, "l2_regularization": 1.0},
)
"""Settings that are searched, the defaults of scikit-learn first."""
MAX_CATEGORIES = 255
"""Most values of a column of categories; others are treated as numbers."""

Scores = Mapping[str, Mapping[Split, float]]
"""The metric by domain and split."""


def boosting_values(
    table: TableDomains,
    left_out: Iterable[tuple[str, ...]],
    file: Path,
    metric: str = ACCURACY,
    *,
    leave_one_out: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, float]:
    """A metric of scikit-learn's HistGradientBoostingClassifier on every domain left out.

    Splits, selection and the reported part of a domain are those of runs in trial 0. Scores are
    kept in ``file``, so that a call that was interrupted continues.

    Args:
        table: the table.
        left_out: sets of domains to leave out.
        file: JSON file of the scores.
        metric: name of the metric.
        leave_one_out: choose settings by domains left out besides, else by the validation splits.
        on_progress: called before every model.
    """
    store = _Store(table, file, metric, on_progress)
    groups, runs = list(left_out), list[RunRecord]()
    for group, setting in product(groups, range(len(SETTINGS))):
        pairs = [(*group, d) for d in table.names if d not in group] if leave_one_out else []
        # Leave-one-out scores a setting by the pairs alone.
        alone = dict.fromkeys(table.names, _UNKNOWN) if pairs else store(group, setting)
        runs.append(_run(group, setting, alone, metric))
        runs += (_run(pair, setting, store(pair, setting), metric) for pair in pairs)
    chosen = choose(frame_of(runs), "leave-one-out" if leave_one_out else "train-val")
    settings = {run.config.id: run.config.hparams["setting"] for run in runs}
    by_domain = {domain: group for group in groups for domain in group}
    return {
        domain: store(by_domain[domain], settings[run])[domain]["train"]
        for domain, run in zip(chosen["test_domain"], chosen["run"], strict=True)
    }


_UNKNOWN: Mapping[Split, float] = {"train": 0.0, "val": 0.0}


def _run(left_out: tuple[str, ...], setting: int, scores: Scores, metric: str) -> RunRecord:
    """The scores of a model as a run that selection chooses from."""
    by_domain: dict[str, dict[Split, Score]] = {
        domain: {split: Score({metric: value}, math.nan, ()) for split, value in splits.items()}
        for domain, splits in scores.items()
    }
    evaluation = Evaluation(1, by_domain, math.nan, {}, {}, "", math.nan, math.nan, 0)
    config = RunConfig("table", tuple(sorted(left_out)), BOOSTING, {"setting": setting})
    task = TaskFacts.of("classification", metric, {metric: find_metric(metric)})
    return RunRecord(config, (evaluation,), "done", task=task)


class _Store:
    """Scores of models by the domains that they left out, computed once."""

    def __init__(
        self, table: TableDomains, file: Path, metric: str, on_progress: OnProgress | None
    ) -> None:
        self._metric, self._classes = find_metric(metric), table.classes
        self._file, self._on_progress = file, on_progress or data.no_progress
        self._domains = table.domains
        sizes = [len(table.texts.get(column.name, ())) for column in table.columns]
        self._categories = [0 < size <= MAX_CATEGORIES for size in sizes]
        self._identity = json.loads(to_json([identity_of(table).to_json(), SETTINGS, metric]))
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
        from sklearn import ensemble  # type: ignore[import-untyped]

        arrays = {
            domain: {name: (part.x[:].numpy(), part.y.numpy()) for name, part in parts.items()}
            for domain, parts in splits(self._domains, 0, left_out).items()
        }
        training = [parts["train"] for name, parts in arrays.items() if name not in left_out]
        x, y = (np.concatenate(part) for part in zip(*training, strict=True))
        model = ensemble.HistGradientBoostingClassifier(
            categorical_features=self._categories, random_state=0, **setting
        ).fit(x, y)
        scores: dict[str, dict[Split, float]] = {name: {} for name in arrays}
        for name, split in product(arrays, get_args(Split)):
            inputs, labels = arrays[name][split]
            probabilities = np.zeros((len(labels), self._classes))
            probabilities[:, model.classes_] = model.predict_proba(inputs)
            scores[name][split], _ = self._metric(labels, model.predict(inputs), probabilities)
        return scores
