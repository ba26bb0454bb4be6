"""Runs of a report by data set, with the choices of every selection rule.

Runs on ColoredMNIST with several test domains, 0.9 among them, follow the protocol of the paper's
Table 1: rules ``colored-mnist-best`` and ``colored-mnist-last``, and mean ± standard deviation over
seeds at the test domain 0.9. Other runs follow DomainBed's rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from riskmatch.report import titles
from riskmatch.report.selected import RowKey, Selected, planned_cases, select_among
from riskmatch.report.tables import Spread, Trials
from riskmatch.runs.frame import Results, read_results
from riskmatch.selection import RULES, Rule

DOMAINBED_RULES = [RULES[name] for name in ("train-val", "test-val", "leave-one-out")]
COLORED_MNIST_RULES = [RULES[name] for name in ("colored-mnist-best", "colored-mnist-last")]
TEST_DOMAIN = "0.9"
"""Test domain of the ColoredMNIST protocol."""


@dataclass(frozen=True)
class DataSelection:
    """Runs on one data set and the choices of the selection rules that apply to them."""

    data: str
    by_rule: dict[str, Selected]
    """Choices by rule name; the first rule is the main one."""

    @cached_property
    def main(self) -> Selected:
        """Choices of the main rule."""
        return next(iter(self.by_rule.values()))

    @property
    def is_default(self) -> bool:
        """Whether these runs have the data options that most runs on the data set have."""
        return self.data in set(self.main.cases["own_data"])

    @property
    def is_colored_mnist(self) -> bool:
        """Whether the runs follow the ColoredMNIST protocol."""
        return self.main.rule in COLORED_MNIST_RULES

    @cached_property
    def compared(self) -> Selected:
        """Choices of the main rule on the test domains where methods are compared."""
        if not self.is_colored_mnist:
            return self.main
        chosen = self.main.chosen
        return replace(self.main, chosen=chosen[chosen["test_domain"] == TEST_DOMAIN])

    def accuracy(self, rule: str, key: RowKey) -> Spread | None:
        """Accuracy of a row: averaged over test domains, on ColoredMNIST at ``TEST_DOMAIN``."""
        selected = self.by_rule.get(rule)
        if selected is None:
            return None
        if self.is_colored_mnist:
            return self.spread(selected.by_domain(key).get(TEST_DOMAIN, ()))
        return self.spread(selected.by_trial(key))

    def spread(self, values: tuple[float, ...]) -> Spread | None:
        """Mean ± standard error over trials; on ColoredMNIST ± standard deviation over seeds."""
        if not values:
            return None
        return Spread(values) if self.is_colored_mnist else Trials(values)


@dataclass(frozen=True)
class PageRuns:
    """Runs of a report."""

    results: Results
    cases: pd.DataFrame
    """Rows of :func:`riskmatch.selection.cases`."""
    by_data: tuple[DataSelection, ...]
    """Data sets in the order of tables."""

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run."""
        return self.results.runs

    @property
    def compared(self) -> list[DataSelection]:
        """Data sets on which methods are compared: those with default data options."""
        return [one for one in self.by_data if one.is_default]

    @property
    def rules(self) -> list[Rule]:
        """Rules that choose at least one run."""
        choosing = {
            name
            for one in self.by_data
            for name, selected in one.by_rule.items()
            if not selected.chosen.empty
        }
        return [rule for rule in (*DOMAINBED_RULES, *COLORED_MNIST_RULES) if rule.name in choosing]


def select_runs(paths: str | Path | Sequence[str | Path]) -> PageRuns:
    """Read the runs below some paths and apply the selection rules.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged.
    """
    results = read_results(paths)
    table = planned_cases(results)
    several = table["test_domain"].notna() & table["test_domains"].map(
        lambda tests: len(tests) > 1 and TEST_DOMAIN in tests
    )
    colored = table["data"].isin(
        set(table.loc[several & (table["own_data"] == "colored-mnist"), "data"])
    )
    by_data: dict[str, dict[str, Selected]] = defaultdict(dict)
    for rules, own in ((DOMAINBED_RULES, table[~colored]), (COLORED_MNIST_RULES, table[colored])):
        for rule in rules:
            for data, one in select_among(own, results, rule).items():
                by_data[data][rule.name] = one
    order = titles.in_order(set(by_data), titles.DATA)
    return PageRuns(results, table, tuple(DataSelection(d, by_data[d]) for d in order))
