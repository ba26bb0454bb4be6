"""What a rule chose on one data set, as the rows of a table read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from riskmatch.report import titles
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.records import RunRecord
from riskmatch.selection import Choice, choose, domains_of


class RowKey(NamedTuple):
    """What a row is of."""

    method: str
    model: str
    """Empty for any network, where a data set has one."""


def row_label(key: RowKey) -> str:
    """The name of a row.

    Example:
        >>> row_label(RowKey("vrex", "")), row_label(RowKey("vrex", "lite0"))
        ('VREx', 'VREx, lite0')
    """
    title = titles.METHODS.get(key.method, key.method)
    return f"{title}, {key.model}" if key.model else title


@dataclass(frozen=True)
class Selected:
    """The runs of one data set and the choices among them."""

    data: str
    rule: str
    runs: tuple[RunRecord, ...]
    """With an evaluation; only those of the plan where there is one."""
    plan: tuple[RunConfig, ...]
    """Empty where none is known."""
    choices: tuple[Choice, ...]

    @classmethod
    def of(
        cls, runs: Iterable[RunRecord], data: str, rule: str, plan: Iterable[RunConfig] = ()
    ) -> Selected:
        """What the rule chooses on a data set, from the runs of the plan if there is one."""
        planned = tuple(config for config in plan if config.data == data)
        ids = {config.id for config in planned}
        found = tuple(
            run
            for run in runs
            if run.config.data == data and run.evaluations and (not ids or run.config.id in ids)
        )
        return cls(data, rule, found, planned, tuple(choose(found, rule)))

    @property
    def configs(self) -> tuple[RunConfig, ...]:
        """What is planned; where no plan is known, what is there."""
        return self.plan or tuple(run.config for run in self.runs)

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """The test domains of the table, in the order of the data set.

        Where no plan is known, and the domains that were tested are trained on elsewhere, each
        domain should be left out in turn: those that never were have their column too.
        """
        alone = [run for run in self.runs if len(run.config.test_domains) == 1]
        tested = {c.test_domains[0] for c in self.configs if len(c.test_domains) == 1}
        ordered = dict.fromkeys(domain for run in self.runs for domain in domains_of(run))
        if not self.plan and len(tested) > 1:
            trained = {
                d for run in alone for d in domains_of(run) if d not in run.config.test_domains
            }
            tested |= trained if tested <= trained else set()
        return (*(d for d in ordered if d in tested), *sorted(tested - ordered.keys()))

    @cached_property
    def rows(self) -> tuple[RowKey, ...]:
        """Methods in the order of tables, and networks by name."""
        return _in_order({RowKey(variant(config), config.model) for config in self.configs})

    @property
    def models(self) -> tuple[str, ...]:
        """The networks."""
        return tuple(sorted({key.model for key in self.rows}))

    def label(self, key: RowKey) -> str:
        """The name of a row; it names the network where there are several."""
        return row_label(key if len(self.models) > 1 else RowKey(key.method, ""))

    def has(self, key: RowKey) -> bool:
        """Whether there are runs, or should be, of a row."""
        return any(row.method == key.method and key.model in ("", row.model) for row in self.rows)

    def accuracies(self, key: RowKey) -> dict[tuple[str, int], float]:
        """In per cent, by test domain and trial."""
        return {
            (choice.case.domain, choice.case.trial): 100 * choice.accuracy
            for choice in self.choices
            if choice.case.method == key.method and key.model in ("", choice.case.model)
        }

    def by_domain(self, key: RowKey) -> dict[str, tuple[float, ...]]:
        """The accuracies of the trials, in per cent, by test domain."""
        found = self.accuracies(key)
        return {
            domain: tuple(value for (d, _), value in sorted(found.items()) if d == domain)
            for domain in self.domains
        }

    def by_trial(self, key: RowKey) -> tuple[float, ...]:
        """The averages over test domains, in per cent, of the trials that have every domain."""
        found = self.accuracies(key)
        trials = sorted({trial for _, trial in found})
        rows = ([found.get((domain, trial)) for domain in self.domains] for trial in trials)
        return tuple(fmean(v for v in row if v is not None) for row in rows if None not in row)

    def average(self, key: RowKey) -> float | None:
        """Over test domains, in per cent; None where one has no run."""
        trials = self.by_domain(key).values()
        return fmean(map(fmean, trials)) if trials and all(trials) else None


def rows_over(sets: Sequence[Selected]) -> tuple[RowKey, ...]:
    """The rows of a table over data sets; networks count where one data set has several."""
    keys = {key for one in sets for key in one.rows}
    if all(len(one.models) <= 1 for one in sets):
        keys = {RowKey(key.method, "") for key in keys}
    return _in_order(keys)


def _in_order(keys: set[RowKey]) -> tuple[RowKey, ...]:
    methods = titles.in_order({key.method for key in keys}, titles.METHODS)
    return tuple(sorted(keys, key=lambda key: (methods.index(key.method), key.model)))
