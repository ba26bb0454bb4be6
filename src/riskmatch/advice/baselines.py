"""Models of scikit-learn that methods are compared with, scored as runs on domains left out."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from riskmatch import data
from riskmatch.data import OnProgress
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.features import random_view
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

MAX_CATEGORIES = 255
"""Most values of a column of categories; others are treated as numbers."""

Scores = Mapping[str, Mapping[Split, float]]
"""The metric by domain and split."""


@dataclass(frozen=True)
class Baseline:
    """A model of scikit-learn, made for the task and the columns of the data."""

    make: Callable[..., Any]
    """Maps whether it is a regression, which columns are categories (a list of booleans, empty of
    features) and the values of a setting to an estimator."""
    settings: tuple[Mapping[str, Any], ...]
    """Settings that are searched, the defaults first."""
    labels: tuple[str, ...] = ("classes", "numbers")
    takes: tuple[str, ...] = ("table",)
    """The inputs that it is trained on: ``table``, ``features``, ``other``."""


def trivial(numbers: bool, categories: list[bool]) -> Any:
    """The most frequent class, with the frequencies as probabilities, or the mean label."""
    from sklearn.dummy import DummyClassifier, DummyRegressor  # type: ignore[import-untyped]

    return DummyRegressor() if numbers else DummyClassifier(strategy="prior")


def linear(numbers: bool, categories: list[bool], **setting: float) -> Any:
    """Logistic or ridge regression on standardised numbers and indicators of categories."""
    from sklearn import compose, impute, linear_model, pipeline, preprocessing  # type: ignore[import-untyped]

    imputer = impute.SimpleImputer(strategy="median", keep_empty_features=True)
    scaled = pipeline.make_pipeline(imputer, preprocessing.StandardScaler())
    indicators = preprocessing.OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES
    )
    texts = [position for position, category in enumerate(categories) if category]
    inputs = compose.ColumnTransformer([("texts", indicators, texts)], remainder=scaled)
    if numbers:
        model = linear_model.Ridge(1 / setting["C"])
    else:
        model = linear_model.LogisticRegression(max_iter=100, tol=1e-3, **setting)
    return pipeline.make_pipeline(inputs, model)


def boosting(numbers: bool, categories: list[bool], **setting: Any) -> Any:
    """Gradient boosting by histograms."""
    from sklearn import ensemble

    made = "HistGradientBoosting" + ("Regressor" if numbers else "Classifier")
    return getattr(ensemble, made)(categorical_features=categories, random_state=0, **setting)


TRIVIAL = "most frequent class", "mean label"
"""Baselines that a model has to beat to be of use."""
_ALL, _CS = ("table", "features", "other"), ({"C": 1.0}, {"C": 0.01})
BASELINES: dict[str, Baseline] = {
    "most frequent class": Baseline(trivial, ({},), ("classes",), _ALL),
    "mean label": Baseline(trivial, ({},), ("numbers",), _ALL),
    "logistic regression": Baseline(linear, _CS, ("classes",), _ALL[:2]),
    "linear regression": Baseline(linear, _CS, ("numbers",), _ALL[:2]),
    "gradient boosting": Baseline(
        boosting,
        (
            {},
            {"learning_rate": 0.05, "max_leaf_nodes": 15},
            {"learning_rate": 0.05, "max_leaf_nodes": 63, "l2_regularization": 1.0},
        ),
    ),
}
"""The baselines by name."""


def baselines_for(domains: DomainSet) -> list[str]:
    """Names of the baselines of data.

    Example:
        >>> baselines_for(data.load("colored-digits", {"samples": 10}))
        ['most frequent class']
    """
    inputs, labels = inputs_of(domains), domains.labels
    fitting = BASELINES.items()
    return [name for name, one in fitting if inputs in one.takes and labels in one.labels]


def inputs_of(domains: DomainSet) -> str:
    """``table``, ``features`` of shape (n, width) or (n, views, width), or ``other``."""
    if isinstance(domains, TableDomains):
        return "table"
    x = domains.domains[0].x
    vectors = isinstance(x, Tensor) and x.ndim == 2 + (domains.augment is random_view)
    return "features" if vectors else "other"


def vectors_of(domain: Domain) -> NDArray[Any]:
    """(n, columns) inputs of a table, or features of the first view; of others none."""
    if not isinstance(domain.x, Tensor) or domain.x.ndim > 3:
        return np.zeros((len(domain), 0))
    x = domain.x.flatten(1) if domain.x.ndim < 3 else domain.x[:, 0]
    return x.cpu().numpy()


def categories_of(domains: DomainSet) -> list[bool]:
    """Which columns of a table are categories; empty where there are no columns."""
    if not isinstance(domains, TableDomains):
        return []
    sizes = [len(domains.texts.get(column.name, ())) for column in domains.columns]
    return [0 < size <= MAX_CATEGORIES for size in sizes]


def baseline_values(
    name: str,
    domains: DomainSet,
    left_out: Iterable[tuple[str, ...]],
    file: Path,
    metric: str = ACCURACY,
    *,
    leave_one_out: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[str, float]:
    """A metric of a baseline on every domain left out.

    Splits, selection and the reported part of a domain are those of runs in trial 0. Scores are
    kept in ``file``, so that a call that was interrupted continues.

    Args:
        name: name in :data:`BASELINES`.
        domains: a table, features or other inputs, with classes or numbers as labels.
        left_out: sets of domains to leave out.
        file: JSON file of the scores.
        metric: name of the metric.
        leave_one_out: choose settings by domains left out besides, else by the validation splits.
        on_progress: called before every model.
    """
    store, count = _Store(name, domains, file, metric, on_progress), len(BASELINES[name].settings)
    groups, runs = list(left_out), list[RunRecord]()
    for group, setting in product(groups, range(count)):
        searched = leave_one_out and count > 1
        pairs = [(*group, d) for d in domains.names if d not in group] if searched else []
        # Leave-one-out scores a setting by the pairs alone.
        alone = dict.fromkeys(domains.names, _UNKNOWN) if pairs else store(group, setting)
        runs.append(store.run(group, setting, alone))
        runs += (store.run(pair, setting, store(pair, setting)) for pair in pairs)
    chosen = choose(frame_of(runs), "leave-one-out" if leave_one_out and count > 1 else "train-val")
    settings = {run.config.id: run.config.hparams["setting"] for run in runs}
    by_domain = {domain: group for group in groups for domain in group}
    return {
        domain: store(by_domain[domain], settings[run])[domain]["train"]
        for domain, run in zip(chosen["test_domain"], chosen["run"], strict=True)
    }


_UNKNOWN: Mapping[Split, float] = {"train": 0.0, "val": 0.0}


class _Store:
    """Scores of models by the domains that they left out, computed once."""

    def __init__(
        self,
        name: str,
        domains: DomainSet,
        file: Path,
        metric: str,
        on_progress: OnProgress | None,
    ) -> None:
        self._name, self._baseline, self._domains = name, BASELINES[name], domains
        self._metric, self._metric_name = find_metric(metric), metric
        self._file, self._on_progress = file, on_progress or data.no_progress
        settings = {key: baseline.settings for key, baseline in BASELINES.items()}
        self._identity = json.loads(to_json([identity_of(domains).to_json(), settings, metric]))
        self._scores: dict[str, Scores] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: start again
            stored = json.loads(read_file(file))
            if stored["identity"] == self._identity:
                self._scores = dict(stored["scores"])

    def __call__(self, left_out: Iterable[str], setting: int) -> Scores:
        names = sorted(left_out)
        key = json.dumps([self._name, names, setting])
        if key not in self._scores:
            self._on_progress(f"{self._name} without {' and '.join(names)}", 0, None)
            self._scores[key] = self._train(names, self._baseline.settings[setting])
            values = {"identity": self._identity, "scores": self._scores}
            write_whole(self._file, to_json(values).encode())
        return self._scores[key]

    def run(self, left_out: Sequence[str], setting: int, scores: Scores) -> RunRecord:
        """The scores of a model as a run that selection chooses from."""
        metric = self._metric_name
        by_domain: dict[str, dict[Split, Score]] = {
            domain: {split: Score({metric: value}, math.nan, ()) for split, value in by.items()}
            for domain, by in scores.items()
        }
        evaluation = Evaluation(1, by_domain, math.nan, {}, {}, "", math.nan, math.nan, 0)
        config = RunConfig("data", tuple(sorted(left_out)), self._name, {"setting": setting})
        task = TaskFacts.of("classification", metric, {metric: self._metric})
        return RunRecord(config, (evaluation,), "done", task=task)

    def _train(self, left_out: list[str], setting: Mapping[str, Any]) -> Scores:
        arrays = {
            domain: {name: (vectors_of(part), part.y.numpy()) for name, part in parts.items()}
            for domain, parts in splits(self._domains.domains, 0, left_out).items()
        }
        training = [parts["train"] for name, parts in arrays.items() if name not in left_out]
        x, y = (np.concatenate(part) for part in zip(*training, strict=True))
        numbers = not self._domains.classes
        model = self._baseline.make(numbers, categories_of(self._domains), **setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of iterations that end before convergence
            model.fit(x, y)
        scores: dict[str, dict[Split, float]] = {name: {} for name in arrays}
        for name, split in product(arrays, get_args(Split)):
            inputs, labels = arrays[name][split]
            probabilities = None
            if not numbers:
                probabilities = np.zeros((len(labels), self._domains.classes))
                probabilities[:, model.classes_] = model.predict_proba(inputs)
            scores[name][split], _ = self._metric(labels, model.predict(inputs), probabilities)
        return scores
