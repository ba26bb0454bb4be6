"""Warnings about runs: a method that never acts, a replaced learning rate, a harmed fit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from riskmatch.runs.config import PLAIN, RunConfig, acts_from, variant
from riskmatch.runs.records import Evaluation, RunRecord

if TYPE_CHECKING:
    import pandas as pd

FALL = 0.05
"""Accuracy on the training domains that a method may cost."""
CHANCE = 0.95
"""Share of the risk of guessing at which a network that was better has collapsed."""
RISE = 1.5
"""Factor by which the loss may rise while the method acts."""


class RunWarning(UserWarning):
    """A run does not do what its method or its options say."""


def inactive(config: RunConfig, domains: Sequence[str] = ()) -> str | None:
    """Why the method of a run never acts, with the cure, in one line; None where it does.

    Args:
        config: configuration of the run.
        domains: all domains of the data set, where they are known.

    Example:
        >>> inactive(RunConfig("pacs", ("photo",), "rdm", {"weight": 5.0, "warmup": 10}, steps=10))
        'rdm never leaves its warm-up: warmup is 10 and the run has 10 steps. Choose a ...'
    """
    cause, method = _cause(config, domains), config.method
    if cause is None:
        return None
    problem = {
        _WARM_UP: f"{method} never leaves its warm-up: warmup is {config.hparams.get('warmup')} "
        f"and the run has {config.steps} steps",
        _WEIGHT: f"{method} has no effect: its penalty has weight 0",
        _DOMAINS: f"{method} has one training domain, and so nothing to match",
    }[cause]
    return f"{problem}. {_CURES[cause].capitalize()}."


def inactive_runs(configs: Iterable[RunConfig], domains: Sequence[str] = ()) -> list[str]:
    """How many runs of each method never act, and why, in one line each.

    Args:
        configs: configurations of the runs.
        domains: all domains of their data set, where they are known.

    Example:
        >>> warmups = (100, 200, 300)
        >>> inactive_runs(RunConfig("d", ("t",), "rdm", {"warmup": w}, steps=200) for w in warmups)
        ['2 of 3 rdm runs never leave their warm-up (warmup ≥ 200 steps): choose a smaller ...']
    """
    total: Counter[str] = Counter()
    never: Counter[tuple[str, str, int]] = Counter()
    for config in configs:
        total[variant(config)] += 1
        if cause := _cause(config, domains):
            never[variant(config), cause, config.steps] += 1
    return [
        f"{count} of {total[method]} {method} runs {cause.format(steps=steps)}: {_CURES[cause]}."
        for (method, cause, steps), count in never.items()
    ]


def replaced_lr(config: RunConfig, given: Container[str]) -> str | None:
    """The step from which ``lr_after`` replaces the learning rate that was given, in one line.

    Args:
        config: configuration of the run.
        given: names of the options that were given.
    """
    after = config.hparams.get("lr_after")
    start = max(config.hparams.get("warmup", 0), config.pretrain)
    if "lr" not in given or "lr_after" in given or after in (None, config.lr):
        return None
    if start >= config.steps:
        return None
    until = f"is used until step {start}" if start else "is never used"
    return (
        f"lr = {config.lr:g} {until}; from step {start} on {config.method} trains with lr_after = "
        f"{after:g}. Give lr_after to choose that rate."
    )


class Point(NamedTuple):
    """An evaluation of a run on its training domains."""

    step: int
    risk: float
    """Mean over the domains of the mean risk of the training samples."""
    accuracy: float
    """Mean over the domains of the accuracy on the training samples."""
    loss: float


def harm(record: RunRecord) -> str | None:
    """How the method of a run harms its fit, with a cure, in one line; None where it does not.

    The cure is a weight at which the gradient of the penalty has the norm of that of the risk,
    where the record has both.
    """
    start = acts_from(record.config)
    classes = len(record.data.classes) if record.data else None
    points = [_point(evaluation, record.config) for evaluation in record.evaluations]
    if record.config.method in PLAIN or (damage := damage_of(points, start, classes)) is None:
        return None
    weight, cure = record.config.hparams.get("weight"), "try a weaker setting of the method"
    if weight:
        cure = f"try a weight below {weight:g}"
        norms = next((e.gradients for e in record.evaluations if e.gradients), None)
        if norms and norms["penalty"] > norms["risk"] > 0:
            ratio = norms["penalty"] / norms["risk"]
            cure = (
                f"try a weight of about {float(f'{weight / ratio:.1g}'):g}, not {weight:g}: the "
                f"gradient of the penalty was {ratio:.2g} times that of the risk"
            )
    if points[-1].risk < CHANCE * _guess(classes):
        expected = "This is expected if it gives up a shortcut, such as the colour of digits; else "
    else:
        expected, cure = "", cure[0].upper() + cure[1:]
    return f"{record.config.method} harms the fit: {damage}. {expected}{cure}."


def findings(record: RunRecord) -> list[str]:
    """Warnings about a run, one line each: see :func:`inactive` and :func:`harm`."""
    return list(filter(None, (inactive(record.config, record.domains), harm(record))))


def harmed(frame: pd.DataFrame) -> set[str]:
    """Ids of the runs in a data frame of :func:`riskmatch.results` that :func:`harm` describes."""
    import pandas as pd

    evaluated = frame[frame["step"].notna() & ~frame["method"].isin(PLAIN)]
    groups: Any = evaluated.groupby(["domains", "test_domains"], sort=False)
    found = set()
    for (domains, tests), part in groups:
        training = [domain for domain in domains if domain not in tests]
        risk, accuracy = (
            part.reindex(columns=[f"{name}/train/{domain}" for domain in training]).mean(axis=1)
            for name in ("risk", "accuracy")
        )
        starts, classes = (part[name].astype(object) for name in ("acts_from", "classes"))
        columns = part["run"], starts, classes, part["step"], risk, accuracy, part["loss"]
        for run, rows in groupby(zip(*map(list, columns), strict=True), itemgetter(0)):
            own = list(rows)
            start, number = (None if value is pd.NA else value for value in own[0][1:3])
            if damage_of([Point(*row[3:]) for row in own], start, number):
                found.add(run)
    return found


def harmful_runs(frame: pd.DataFrame) -> list[str]:
    """How many runs of each method in a data frame harm the fit, in one line each."""
    runs = frame.drop_duplicates("run")
    counts = runs["run"].isin(harmed(frame)).groupby(runs["variant"]).agg(["sum", "size"])
    return [
        f"{row['sum']} of {row['size']} {method} runs harm the fit of the training domains: try "
        "smaller weights."
        for method, row in counts[counts["sum"] > 0].iterrows()
    ]


def damage_of(points: Sequence[Point], start: int | None, classes: int | None) -> str | None:
    """What became worse on the training domains after the method started; None if nothing did.

    The last evaluation is compared with the one before the method acts or, without a warm-up, with
    the most accurate one: the risk is that of guessing, log(classes), or the accuracy has fallen
    by more than five points, or the loss has risen by half.

    Example:
        >>> damage_of([Point(100, 0.3, 0.9, 0.3), Point(200, 1.95, 0.2, 1.95)], 100, 7)
        'the training risk is 1.95 at step 200, that of guessing is 1.95; it was 0.3 at step 100'
    """
    later = [point for point in points if start is not None and point.step > start]
    if not later:
        return None
    first, last = later[0], later[-1]
    known = [point for point in points if point.step <= (start or 0)]
    before = known[-1] if known else max(later, key=lambda point: point.accuracy)
    guess = _guess(classes)
    # A network without a warm-up may have learnt nothing yet: its risk must have been lower.
    bound = before.risk if known else guess if start else max(guess, before.risk)
    if last.risk > CHANCE * guess and last.risk > bound:
        was = f"; it was {before.risk:.3g} at step {before.step}" if before is not last else ""
        return (
            f"the training risk is {last.risk:.3g} at step {last.step}, that of guessing is "
            f"{guess:.3g}{was}"
        )
    if before.accuracy - last.accuracy > FALL:
        return (
            f"the accuracy on the training domains fell from {100 * before.accuracy:.1f} % at step "
            f"{before.step} to {100 * last.accuracy:.1f} % at step {last.step}"
        )
    if last.loss > RISE * first.loss > 0 and last.risk > RISE * before.risk:
        return (
            f"the loss rose from {first.loss:.3g} at step {first.step} to {last.loss:.3g} at step "
            f"{last.step}"
        )
    return None


def _guess(classes: int | None) -> float:
    """Risk of guessing."""
    return math.log(classes) if classes and classes > 1 else math.inf


def _point(evaluation: Evaluation, config: RunConfig) -> Point:
    scores = [
        splits["train"]
        for domain, splits in evaluation.scores.items()
        if domain not in config.test_domains and "train" in splits
    ]
    risk = fmean(score.risk for score in scores) if scores else math.nan
    accuracy = fmean(score.accuracy for score in scores) if scores else math.nan
    return Point(evaluation.step, risk, accuracy, evaluation.loss)


_WARM_UP = "never leave their warm-up (warmup ≥ {steps} steps)"
_WEIGHT = "have a penalty of weight 0"
_DOMAINS = "have one training domain, and so nothing to match"
_CURES = {
    _WARM_UP: "choose a smaller warmup or more steps",
    _WEIGHT: "choose a larger weight",
    _DOMAINS: "hold out fewer domains",
}


def _cause(config: RunConfig, domains: Sequence[str]) -> str | None:
    if acts_from(config) is None:
        return _WEIGHT if config.hparams.get("weight") == 0 else _WARM_UP
    training = [name for name in domains if name not in config.test_domains]
    return _DOMAINS if len(training) == 1 and config.method not in PLAIN else None
