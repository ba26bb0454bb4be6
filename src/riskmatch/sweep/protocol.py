"""Which runs compare methods on a data set: the protocol of the field.

Every domain is split 80/20 by the number of the trial; each domain is left out in turn; and
hyper-parameters are searched at random, the first draw being the defaults (Gulrajani and
Lopez-Paz, In Search of Lost Domain Generalization, ICLR 2021).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from riskmatch.defaults import configure, recipe, space_of
from riskmatch.runs.config import RunConfig
from riskmatch.selection import variant
from riskmatch.space import draw
from riskmatch.validation import check_option

OPTIONS = "data_options", "model_options"


@dataclass(frozen=True)
class Planned:
    """A run and its place in a sweep."""

    config: RunConfig
    draw: int
    """The number of its hyper-parameters among those drawn; 0 are the defaults."""

    @property
    def title(self) -> str:
        """The run in a line.

        Example:
            >>> Planned(RunConfig("pacs", ("sketch",), "rdm", trial=1), draw=3).title
            'rdm on pacs without sketch, draw 3, trial 1'
        """
        run = self.config
        without = " and ".join(run.test_domains)
        at = f"draw {self.draw}, trial {run.trial}"
        return f"{variant(run)} on {run.data} without {without}, {at}"


def held_out(
    names: Sequence[str], test_only: Sequence[str] = (), pairs: bool = False
) -> list[tuple[str, ...]]:
    """The sets of test domains of a data set: each domain in turn.

    Args:
        names: of all its domains.
        test_only: those on which nobody may train; where there are any, they are the test domains.
        pairs: also every one with another domain, which selection by leave-one-out needs.

    Example:
        >>> held_out(("a", "b", "c"), pairs=True)
        [('a',), ('b',), ('c',), ('a', 'b'), ('a', 'c'), ('b', 'c')]
        >>> held_out(("a", "b", "c"), test_only=("c",), pairs=True)
        [('c',), ('c', 'a'), ('c', 'b')]
    """
    others = [name for name in names if name not in test_only]
    if test_only:
        fixed = tuple(test_only)
        return [fixed, *((*fixed, other) for other in others if pairs)]
    return [(name,) for name in names] + (list(combinations(names, 2)) if pairs else [])


@dataclass(frozen=True)
class Protocol:
    """A comparison of methods.

    Example:
        >>> plan = Protocol("pacs", ("erm", "rdm"), (("photo",), ("sketch",)), draws=2, trials=1)
        >>> [run.title for run in plan.runs()][2]
        'erm on pacs without sketch, draw 0, trial 0'
    """

    data: str
    methods: tuple[str, ...]
    tests: tuple[tuple[str, ...], ...]
    """Sets of test domains."""
    draws: int = 20
    """Of hyper-parameters; the first are the defaults."""
    trials: int = 3
    """Splits, each with other weights and batches, and but for the first with other draws."""
    fixed_draws: bool = False
    """Let all trials have the same draws: replicates, whose spread is that of chance alone."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the run, or of the methods that have them, for all draws alike."""

    def __post_init__(self) -> None:
        from riskmatch.objectives import methods

        for method in self.methods:
            check_option("method", method, sorted(methods()))
        for number, name in ((self.draws, "draws"), (self.trials, "trials")):
            if number < 1:
                raise ValueError(f"A sweep has one of its {name} or more, not {number}.")
        own = {"data", "test_domains", "method", "hparams", "seed", "trial"}
        known = {name for method in self.methods for name in recipe(method, self.data)} - own
        for name in self.choices:
            check_option(f"option of {', '.join(self.methods)}", name, sorted(known))

    @property
    def frozen(self) -> bool:
        """Whether heads are trained on the features of a fixed backbone."""
        return bool(self.choices.get("model_options", {}).get("frozen"))

    def runs(self) -> list[Planned]:
        """Every run once; whoever stops early has all trials and methods of the first draws."""
        everything = product(range(self.draws), range(self.trials), self.tests, self.methods)
        planned = (Planned(self._run(*place), place[0]) for place in everything)
        found: dict[str, Planned] = {}
        for run in planned:
            found.setdefault(run.config.id, run)
        return list(found.values())

    def _run(self, number: int, trial: int, tests: tuple[str, ...], method: str) -> RunConfig:
        usual = recipe(method, self.data, frozen=self.frozen)
        values = dict(usual)
        if number > 0:
            seed = _seed(self.data, method, 0 if self.fixed_draws else trial, number)
            values |= draw(space_of(method, self.data, self.frozen), seed, self.data)
        values |= {name: value for name, value in self.choices.items() if name in values}
        for name in OPTIONS:
            values[name] = {**usual[name], **values[name]}
        values |= {"seed": trial, "trial": trial}
        run, warmup = configure(method, self.data, tests, values), values.get("warmup", 0)
        # A draw may well be all warm-up, as ranges of the field have it; the defaults may not.
        if number == 0 and warmup >= run.steps:
            raise ValueError(
                f"{method} would never leave its warm-up of {warmup} steps within "
                f"{run.steps} steps: choose its warmup, too."
            )
        return run


def _seed(*key: str | int) -> int:
    return int.from_bytes(hashlib.sha256("/".join(map(str, key)).encode()).digest()[:8], "big")
