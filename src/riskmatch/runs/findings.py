"""What a run does that one would not expect: a method that never acts, a replaced rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from riskmatch.runs.config import PLAIN, RunConfig, acts_from, variant


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
