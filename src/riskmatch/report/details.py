"""Page data of one run: curves, risk distributions, confusion, calibration, hardest samples."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from riskmatch.defaults import given_for, resolve
from riskmatch.registry import INSTANCE, PartError
from riskmatch.report.density import MAX_DOMAINS, finite_risks, snapshots
from riskmatch.report.figures.training import matching_losses, training_risks
from riskmatch.report.samples import (
    MAX_HARDEST,
    UNREADABLE,
    DataCache,
    Examples,
    NotStoredError,
    hardest,
    predictions_by_step,
    shown_in_detail,
    validation,
)
from riskmatch.report.titles import part_titles
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.findings import findings, worse_fit
from riskmatch.runs.lines import Evaluation, Score, Split
from riskmatch.runs.predictions import ByDomain, Predictions
from riskmatch.runs.records import RunRecord, StoredRun
from riskmatch.runs.rows import rows_of

SPLITS: tuple[Split, ...] = ("train", "val")
CALIBRATION_BINS = 15


def details(
    run: StoredRun, title: str, metric: str, chosen: int | None, data: DataCache, notes: list[str]
) -> dict[str, Any]:
    """Page data of a run.

    Confusion, calibration and hardest samples are those of the chosen step where its predictions
    are stored, else of the last one; of a test domain they use all samples. Only classes are
    confused and calibrated.

    Args:
        run: the run.
        title: its title on the page.
        metric: name of the metric of the page.
        chosen: the step that the selection rule chose.
        data: the data sets of runs.
        notes: is extended by what cannot be shown.
    """
    config, record, tests = run.config, run.record, run.config.test_domains
    command = train_command(config)
    by_step, no_predictions = dict[int, ByDomain](), ""
    try:
        by_step = predictions_by_step(run, data, chosen)
    except UNREADABLE as error:
        no_predictions = str(error).rstrip(".")
        if command and isinstance(error, NotStoredError):
            no_predictions += "; to get them, train again with the command below and another --out"
    step = chosen if chosen in by_step else max(by_step, default=None)
    last = shown_in_detail(by_step[step], tests) if step is not None else {}
    joined = {d: Predictions.join(list(parts.values())) for d, parts in last.items() if parts}
    classified = {d: p for d, p in joined.items() if p.label.dtype.kind in "iu"}
    examples = None
    if last:
        with _without_pictures(title, notes):
            examples = data.examples(config)
    classes = _class_names(examples, classified)
    samples, hard = None, {d: last[d] for d in _riskiest(joined, tests)}
    limit = MAX_HARDEST if len(hard) == len(joined) else MAX_HARDEST // 2
    if examples:
        with _without_pictures(title, notes):
            samples = hardest(hard, classes or examples.classes, examples.take, limit)
    return {
        "id": config.id,
        "title": title,
        "method": config.method,
        "task": record.task.name,
        "metric": metric,
        "data": config.data,
        "domains": record.domains,
        "parts_of_domains": part_titles(config.data, config.data_options),
        "chosen_step": chosen,
        "sizes": part_sizes(record),
        "training_domains": [d for d in record.domains if d not in tests],
        "test_domains": list(tests),
        "classes": classes,
        "status": record.status,
        "error": record.error,
        "findings": findings(record),
        "lost": bool((fit := worse_fit(rows_of(record))) and fit.lost),
        "config": config.to_json(),
        "parts": {
            type_: {name: value for name, value in part.items() if value is not None}
            for type_, part in record.parts.items()
        },
        "reproduce": command,
        "curves": curves(record, metric),
        "matching": matching_curves(by_step, tests),
        "snapshots": snapshots({s: validation(shown) for s, shown in by_step.items()}, tests),
        "no_predictions": no_predictions,
        "step_of_samples": step,
        "samples": {domain: _count(run, domain, p) for domain, p in joined.items()},
        "confusion": {domain: confusion(p, len(classes)) for domain, p in classified.items()},
        "calibration": {domain: calibration(p) for domain, p in classified.items()},
        "hardest": hardest(hard, classes, None, limit) if samples is None else samples,
    }


@contextmanager
def _without_pictures(title: str, notes: list[str]) -> Iterator[None]:
    """Note that samples cannot be shown, in place of an error."""
    try:
        yield
    except (*UNREADABLE, KeyError, IndexError) as error:
        cause = str(error).rstrip(".")
        notes.append(f"{title}: hardest samples without pictures ({cause}).")


def _count(run: StoredRun, domain: str, predicted: Predictions) -> dict[str, Any]:
    """Samples of a domain that are shown, how many are classified correctly, and of how many.

    ``correct`` is None unless labels are classes. ``of`` is the size of a test domain; None where
    the record does not state it.
    """
    test, classes = domain in run.config.test_domains, predicted.label.dtype.kind in "iu"
    return {
        "n": len(predicted.label),
        "correct": int((predicted.label == predicted.predicted).sum()) if classes else None,
        "of": run.record.data.samples.get(domain) if test and run.record.data else None,
    }


def part_sizes(record: RunRecord) -> dict[str, dict[Split, int]]:
    """Samples of each part of a domain, where the record states them and parts are 80/20."""
    titles = part_titles(record.config.data, record.config.data_options)
    if record.data is None or not titles["train"].startswith("80"):
        return {}
    validation = {name: max(1, round(0.2 * n)) for name, n in record.data.samples.items()}
    return {
        name: {"train": n - validation[name], "val": validation[name]}
        for name, n in record.data.samples.items()
    }


def _riskiest(last: Mapping[str, Predictions], tests: Sequence[str]) -> list[str]:
    """Domains whose samples are shown: of many the test domains, and those of the largest risk."""

    def place(domain: str) -> tuple[bool, float]:
        risks = finite_risks(last[domain])
        return domain not in tests, -float(risks.mean()) if len(risks) else 0.0

    kept = sorted(last, key=place)[:MAX_DOMAINS]
    return [domain for domain in last if domain in kept]


def _class_names(examples: Examples | None, last: Mapping[str, Predictions]) -> list[str]:
    """Class names; label numbers where the data set is not available."""
    largest = max((int(v.max()) for p in last.values() for v in (p.label, p.predicted)), default=-1)
    names = list(examples.classes) if examples else []
    return names if len(names) > largest else [str(label) for label in range(largest + 1)]


def curves(run: RunRecord, metric: str) -> dict[str, Any]:
    """Series over the evaluations: scores by domain and split, loss and its terms, worst domain.

    ``start`` is the step at which a warm-up ends.
    """
    evaluations = run.evaluations
    return {
        "steps": [evaluation.step for evaluation in evaluations],
        "start": acts_from(run.config) or None,
        "metric": {d: _score_series(evaluations, d, metric) for d in run.domains},
        "risk": {d: _score_series(evaluations, d, "risk") for d in run.domains},
        "loss": [evaluation.loss for evaluation in evaluations],
        "terms": _named_series([evaluation.terms for evaluation in evaluations]),
        "raw": _named_series([evaluation.raw for evaluation in evaluations]),
        "worst": [evaluation.worst_domain for evaluation in evaluations],
    }


def matching_curves(by_step: Mapping[int, ByDomain], tests: Sequence[str]) -> dict[str, list[Any]]:
    """Matching loss L̂ on training and on validation samples of the training domains, by step.

    The series are empty where a part is not stored, or fewer than two steps are.
    """
    shown: dict[str, list[Any]] = {"steps": [], "train": [], "val": []}
    if len(by_step) < 2:
        return shown
    for step, by_domain in by_step.items():
        for part in SPLITS:
            risks = training_risks(by_domain, tests, part)
            known = len(risks) > 1 and all(map(len, risks))
            shown[part].append(matching_losses(risks)[1] if known else None)
        shown["steps"].append(step)
    return shown


def _score_series(
    evaluations: Sequence[Evaluation], domain: str, score: str
) -> dict[str, list[float | None]]:
    def value(scores: Mapping[Split, Score], split: Split) -> float | None:
        if split not in scores:
            return None
        return scores[split].risk if score == "risk" else scores[split].metrics.get(score)

    splits = [evaluation.scores.get(domain, {}) for evaluation in evaluations]
    return {split: [value(scores, split) for scores in splits] for split in SPLITS}


def _named_series(values: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    names = dict.fromkeys(name for entry in values for name in entry)
    return {name: [entry.get(name) for entry in values] for name in names}


def confusion(predictions: Predictions, classes: int) -> list[list[int]]:
    """Confusion matrix: samples by true class (row) and predicted class (column).

    Example:
        >>> a = np.array([0, 0, 1])
        >>> confusion(Predictions(a, np.array([0, 1, 1]), np.array([0, 0, 1]), a, a), 2)
        [[1, 0], [1, 1]]
    """
    pairs = predictions.label.astype(np.int64) * classes + predictions.predicted
    counts = np.bincount(pairs, minlength=classes * classes)
    return [[int(n) for n in row] for row in counts.reshape(classes, classes)]


def calibration(predictions: Predictions, bins: int = CALIBRATION_BINS) -> dict[str, Any]:
    """Reliability diagram in bins of equal width, and the expected calibration error.

    ECE = Σ_b n_b/n · |accuracy_b − confidence_b| over the non-empty bins (low, high].

    Reference: Guo et al., *On Calibration of Modern Neural Networks*, ICML 2017.
    """
    confidence = predictions.confidence.astype(np.float64)
    correct = predictions.predicted == predictions.label
    finite = np.isfinite(confidence)
    confidence, correct = confidence[finite], correct[finite]
    number = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    filled = []
    for k in np.unique(number):
        inside = number == k
        filled.append(
            {
                "low": k / bins,
                "high": (k + 1) / bins,
                "confidence": float(confidence[inside].mean()),
                "accuracy": float(correct[inside].mean()),
                "n": int(inside.sum()),
            }
        )
    errors = [b["n"] / len(number) * abs(b["accuracy"] - b["confidence"]) for b in filled]
    return {"ece": sum(errors) if filled else None, "bins": filled}


def train_command(config: RunConfig) -> str:
    """``riskmatch train`` with the options in which the run differs from the defaults.

    Empty for runs imported from DomainBed, for runs with objects passed in Python, and where a part
    of the run is unknown.

    Example:
        >>> train_command(RunConfig("colored-digits", ("0.1",), "groupdro", {"eta": 0.1}))
        'riskmatch train colored-digits --method groupdro --test-domain 0.1 --eta 0.1 ...'
    """
    parts = (config.data, config.method, config.model)
    if "hparams_seed" in config.hparams or any(part.startswith(INSTANCE) for part in parts):
        return ""
    try:
        given = given_for(config)
    except PartError:
        return ""
    frozen = given.get("model_options", {}).pop("frozen", False)
    single = resolve(data=config.data, frozen=frozen, single=True)
    if single["patience"].value and "steps" not in given:
        given["patience"] = config.patience  # the command has a default of its own
    words = ["riskmatch", "train", config.data, "--method", config.method]
    for domain in config.test_domains:
        words += ["--test-domain", domain]
    words += ["--frozen"] * frozen
    for name, value in given.items():
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> Iterator[str]:
    """Words of one option; parsing them gives the same value."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        yield f"--{flag}" if value else f"--no-{flag}"
    elif value in ("", []):
        return
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from (f"--{flag.removesuffix('s')}", f"{key}={_entry(entry)}")
    elif value is None:
        yield from (f"--{flag}", "none")
    elif isinstance(value, list):
        yield from (f"--{flag}", ",".join(value)) * bool(value)
    else:
        yield from (f"--{flag}", str(value))


def _entry(value: Any) -> str:
    """Text unquoted, unless it would be parsed as JSON."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)
