"""Warnings about runs: a method that never acts, a replaced learning rate, a worse fit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from riskmatch.runs.config import RunConfig, acts_from, variant, warmup_of
from riskmatch.runs.records import RunRecord
from riskmatch.runs.rows import RunRows, rows_of
from riskmatch.runs.task import ACCURACY_ALONE

FALL = 0.05
"""Change of a metric between 0 and 1 that is named: a fall on training domains, a rise on test
domains."""
CHANCE = 0.95
"""Share of the risk of guessing at which a network that was better has collapsed."""
RISE = 1.5
"""Factor by which the loss may rise while the method acts."""
OUTWEIGHED = 10.0
"""Factor of the risk of guessing that a loss exceeds whose penalty keeps a network there."""
EXPECTED = "This is expected where a method gives up a shortcut, such as the colour of digits"


Fit = Literal["", "lost", "worse", "gained"]
"""How the fit of the training domains became worse once a method acted: the risk is that of
guessing (``lost``), or it is worse, perhaps while the metric on the test domains rose
(``gained``); else empty. See :func:`compare_fits`."""


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
        _WARM_UP: f"{method} never leaves its warm-up: warmup is {warmup_of(config)} "
        f"and the run has {config.steps} steps",
        _WEIGHT: f"{method} has no effect: its penalty has weight 0",
        _DOMAINS: f"{method} has one training domain, and so nothing to match",
    }[cause]
    return f"{problem}. {_CURES[cause].capitalize()}."


def no_gradient(config: RunConfig) -> str:
    """That the penalty of a run changes no weight of the network, with the cure, in one line.

    Example:
        >>> no_gradient(RunConfig("pacs", ("photo",), "coral", model="linear"))
        "coral has no effect on the network linear: its penalty is on features, and no weight ..."
    """
    return (
        f"{config.method} has no effect on the network {config.model}: its penalty is on features, "
        "and no weight before the classifier is trained. Train a layer there (--model-option "
        "hidden=256, in Python model_options={'hidden': 256}), or the whole network."
    )


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
    """An evaluation of a run."""

    step: int
    risk: float
    """Mean over the training domains of the mean risk of the training samples."""
    value: float
    """Mean over the training domains of the metric on the training samples."""
    loss: float
    test_value: float = math.nan
    """Mean over the test domains of the metric that tables report."""


class WorseFit(NamedTuple):
    """A fit of the training domains that became worse once the method acted."""

    what: str
    """What became worse, from which step to which."""
    metric: str
    """Title of the metric of the points."""
    lost: bool
    """Whether the risk is that of guessing; else the method may have given up a shortcut."""
    before: Point
    last: Point

    @property
    def gained(self) -> bool:
        """Whether the metric on the test domains rose meanwhile."""
        return not self.lost and self.last.test_value - self.before.test_value > FALL


def worse_fit(rows: RunRows) -> WorseFit | None:
    """How the fit of a run became worse once its method acted; None if it did not."""
    if rows.config.about.plain:
        return None
    name = rows.task.primary
    facts = rows.task.metrics.get(name, ACCURACY_ALONE.metrics["accuracy"])
    name = name if facts.higher and facts.percent else ""
    return compare_fits(_points(rows, name), acts_from(rows.config), rows.classes, facts.title)


def describe_fit(record: RunRecord) -> str | None:
    """The worse fit of a run with a cure, in one line; None where there is none.

    The cure is a weight at which the gradient of the penalty has the norm of that of the risk,
    where the record has both.
    """
    if (fit := worse_fit(rows_of(record))) is None:
        return None
    method, weight = record.config.method, record.config.hparams.get("weight")
    cure = "try a weaker setting of the method"
    if weight:
        cure = f"try a weight below {weight:g}"
        norms = next((e.gradients for e in record.evaluations if e.gradients), None)
        if norms and norms["penalty"] > norms["risk"] > 0:
            ratio = norms["penalty"] / norms["risk"]
            cure = (
                f"try a weight of about {float(f'{weight / ratio:.1g}'):g}, not {weight:g}: the "
                f"gradient of the penalty was {float(f'{ratio:.2g}'):g} times that of the risk"
            )
    if fit.lost:
        return f"{method} harms the fit: {fit.what}. {cure[0].upper()}{cure[1:]}."
    rose = ""
    if fit.gained:
        rose = (
            f", while the {fit.metric} on the test domain rose from "
            f"{100 * fit.before.test_value:.1f} % to {100 * fit.last.test_value:.1f} %"
        )
    return (
        f"{method} fits the training domains less well once it acts: {fit.what}{rose}. {EXPECTED}; "
        f"else {cure}."
    )


def findings(record: RunRecord) -> list[str]:
    """Warnings about a run, one line each.

    See :func:`inactive`, :func:`no_gradient` and :func:`describe_fit`.
    """
    unfelt = no_gradient(record.config) if record.no_gradient else None
    known = inactive(record.config, record.domains), unfelt, describe_fit(record)
    return list(filter(None, known))


def fit_of(rows: RunRows) -> Fit:
    """How the fit of a run became worse."""
    fit = worse_fit(rows)
    return "" if fit is None else "lost" if fit.lost else "gained" if fit.gained else "worse"


def worse_fit_runs(fits: Iterable[tuple[str, Fit]]) -> list[str]:
    """How many runs of each method have a worse fit, in one line each.

    Args:
        fits: the method of every run, and how its fit became worse.
    """
    runs: dict[str, Counter[Fit]] = defaultdict(Counter)
    for method, fit in fits:
        runs[method][fit] += 1
    lines = []
    for method, counts in sorted(runs.items()):
        lost, gained = counts["lost"], counts["gained"]
        if lost:
            lines.append(
                f"{lost} of {counts.total()} {method} runs have the training risk of guessing once "
                "the method acts: try smaller weights."
            )
        if worse := counts["worse"] + gained:
            rose = f", {gained} of them with a higher accuracy on the test domain" if gained else ""
            lines.append(
                f"{worse} of {counts.total()} {method} runs fit the training domains less well "
                f"once the method acts{rose}. {EXPECTED}; else try smaller weights."
            )
    return lines


def compare_fits(
    points: Sequence[Point], start: int | None, classes: int | None, metric: str = "accuracy"
) -> WorseFit | None:
    """What became worse on the training domains after the method started; None if nothing did.

    The last evaluation is compared with the one before the method acts or, without a warm-up, with
    the best one: the risk is that of guessing, log(classes), or the metric, if it lies between 0
    and 1 and higher is better, has fallen by more than five points, or the loss has risen by half.

    Example:
        >>> compare_fits([Point(100, 0.3, 0.9, 0.3), Point(200, 1.95, 0.2, 1.95)], 100, 7).what
        'the training risk is 1.95 at step 200, that of guessing is 1.95; it was 0.3 at step 100'
    """
    later = [point for point in points if start is not None and point.step > start]
    if not later:
        return None
    first, last = later[0], later[-1]
    known = [point for point in points if point.step <= (start or 0)]
    before = known[-1] if known else max(later, key=lambda point: point.value)
    guess = math.log(classes) if classes and classes > 1 else math.inf
    # A network without a warm-up may have learnt nothing yet: its risk must have been lower, or be
    # far above that of guessing, or small in its loss.
    bound = before.risk if known else guess if start else min(max(guess, before.risk), RISE * guess)
    outweighed = not known and last.loss > OUTWEIGHED * guess
    if lost := last.risk > CHANCE * guess and (last.risk > bound or outweighed):
        was = f"; it was {before.risk:.3g} at step {before.step}" if before is not last else ""
        what = (
            f"the training risk is {last.risk:.3g} at step {last.step}, that of guessing is "
            f"{guess:.3g}{was}"
        )
    elif before.value - last.value > FALL:
        what = (
            f"the {metric} on the training domains fell from {100 * before.value:.1f} % at step "
            f"{before.step} to {100 * last.value:.1f} % at step {last.step}"
        )
    elif last.loss > RISE * first.loss > 0 and last.risk > RISE * before.risk:
        what = (
            f"the loss rose from {first.loss:.3g} at step {first.step} to {last.loss:.3g} at step "
            f"{last.step}"
        )
    else:
        return None
    return WorseFit(what, metric, lost, before, last)


def _points(rows: RunRows, metric: str) -> list[Point]:
    points: list[Point] = []
    for block in rows.blocks:
        names, numbers = block.names, block.numbers
        steps = rows.steps[len(points) : len(points) + len(numbers)]
        risk, value, test_value = (
            (numbers[:, places].sum(axis=1) / (len(places) or math.nan)).tolist()
            for places in _places(names, rows.config.test_domains, metric)
        )
        loss = numbers[:, names.index("loss")].tolist()
        points += map(Point, steps, risk, value, loss, test_value)
    return points


@lru_cache
def _places(names: tuple[str, ...], tests: tuple[str, ...], metric: str) -> list[list[int]]:
    """Places among columns of what a :class:`Point` averages."""
    scores = [name.partition("/train/")[::2] for name in names]
    return [
        [
            place
            for place, (what, domain) in enumerate(scores)
            if domain and what == wanted and test == (domain in tests)
        ]
        for wanted, test in (("risk", False), (metric, False), (metric, True))
    ]


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
    return _DOMAINS if len(training) == 1 and not config.about.plain else None
