"""Runs grouped for tables: what a selection rule chose, by data set, method and network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import NamedTuple, TypeVar

import pandas as pd

from riskmatch.report import titles
from riskmatch.report.tables import Gain
from riskmatch.runs.frame import Results
from riskmatch.runs.method import part_title
from riskmatch.selection import Rule, cases, choose_among, find_rule

_Row = TypeVar("_Row")


class RowKey(NamedTuple):
    """The method and the network of a row."""

    variant: str
    model: str
    """Empty for any network, where a data set has one."""


def row_label(variant: str, model: str = "") -> str:
    """The name of a row.

    Example:
        >>> row_label("vrex"), row_label("vrex", "lite0")
        ('VREx', 'VREx, lite0')
    """
    title, network = titles.method_title(variant), part_title(model)
    return f"{title}, {network}" if model else title


@dataclass(frozen=True)
class Selected:
    """The runs on one data set, and what a rule chose among them."""

    data: str
    """Name of the data set, as :func:`riskmatch.selection.cases` gives it."""
    rule: Rule
    cases: pd.DataFrame
    """Rows of :func:`riskmatch.selection.cases`; those of the plan, where there is one."""
    chosen: pd.DataFrame
    """Rows of :func:`riskmatch.selection.choose`."""
    results: Results
    """All runs and evaluations."""

    @property
    def planned(self) -> bool:
        """Whether the cases are those of a plan."""
        return bool(self.results.plan)

    @cached_property
    def evaluated(self) -> pd.DataFrame:
        """The cases of runs that have been evaluated."""
        return self.cases[self.cases["domains"].map(len) > 0]

    @cached_property
    def alone(self) -> pd.DataFrame:
        """The evaluated cases but for runs that serve ``leave-one-out`` alone."""
        return self.evaluated[self.evaluated["test_domain"].notna()]

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """The test domains of the table, in the order of the data set.

        Without a plan, where the tested domains are trained on elsewhere, each domain should be
        left out in turn: domains that never were have their column too.
        """
        tested = set(self.cases["test_domain"].dropna())
        ordered = dict.fromkeys(d for domains in self.evaluated["domains"] for d in domains)
        if not self.planned and len(tested) > 1:
            pairs = zip(self.alone["domains"], self.alone["test_domains"], strict=True)
            trained = {d for domains, tests in pairs for d in domains if d not in tests}
            tested |= trained if tested <= trained else set()
        return (*(d for d in ordered if d in tested), *sorted(tested - ordered.keys()))

    @cached_property
    def rows(self) -> tuple[RowKey, ...]:
        """The rows: methods in the order of tables, and networks by name."""
        pairs = zip(self.cases["variant"], self.cases["model"], strict=True)
        return in_method_order((pair[0], RowKey(*pair)) for pair in sorted(set(pairs)))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The networks."""
        return tuple(sorted({key.model for key in self.rows}))

    def label(self, variant: str, model: str) -> str:
        """The name of a row; it names the network where there are several."""
        return row_label(variant, model if len(self.models) > 1 else "")

    def part(self, key: RowKey, frame: pd.DataFrame) -> pd.DataFrame:
        """The part of ``cases``, ``evaluated`` or ``chosen`` that belongs to a row."""
        own = frame[frame["variant"] == key.variant]
        return own[own["model"] == key.model] if key.model else own

    def accuracies(self, key: RowKey) -> dict[tuple[str, int], float]:
        """Accuracies in per cent, by test domain and trial, in the order of trials."""
        own = self.part(key, self.chosen)  # sorted by case
        columns = zip(own["test_domain"], own["trial"], own["accuracy"], strict=True)
        return {(domain, trial): 100 * accuracy for domain, trial, accuracy in columns}

    def by_domain(self, key: RowKey) -> dict[str, tuple[float, ...]]:
        """The accuracies of the trials in per cent, by test domain."""
        known = self.accuracies(key).items()
        return {name: tuple(v for (d, _), v in known if d == name) for name in self.domains}

    def by_trial(self, key: RowKey) -> tuple[float, ...]:
        """The averages over test domains in per cent, of the trials that have every domain."""
        by_trial: dict[int, list[float]] = defaultdict(list)
        for (_, trial), accuracy in self.accuracies(key).items():
            by_trial[trial].append(accuracy)
        whole = len(self.domains)
        return tuple(fmean(own) for _, own in sorted(by_trial.items()) if len(own) == whole)

    def average(self, key: RowKey) -> float | None:
        """The mean of :meth:`by_trial`; None where no trial has every test domain."""
        trials = self.by_trial(key)
        return fmean(trials) if trials else None


def select(results: Results, rule: str | Rule = "train-val") -> dict[str, Selected]:
    """What a rule chooses on every data set, by its name, in the order of tables.

    Args:
        results: runs; those that are not in their plan, where there is one, do not count.
        rule: how runs and steps are chosen.
    """
    return select_among(planned_cases(results), results, find_rule(rule))


def planned_cases(results: Results) -> pd.DataFrame:
    """The cases of runs, or of a plan where there is one; see :func:`riskmatch.selection.cases`."""
    table = cases(results.runs, results.plan)
    planned = {config.id for config in results.plan}
    return table[table["run"].isin(planned)] if planned else table


def select_among(table: pd.DataFrame, results: Results, rule: Rule) -> dict[str, Selected]:
    """As :func:`select`, of cases that are known already."""
    chosen = choose_among(table, results.evaluations, rule)
    return {
        data: Selected(
            data, rule, table[table["data"] == data], chosen[chosen["data"] == data], results
        )
        for data in titles.in_order(set(table["data"]), titles.DATA)
    }


def choices_by_run(selected: Selected) -> pd.DataFrame:
    """What the rule chooses among the steps of every single run; trials are numbers of runs."""
    table, evaluations, rule = selected.cases, selected.results.evaluations, selected.rule
    if rule.domains != "left-out":
        alone = table.assign(trial=pd.factorize(table["run"])[0])
        return choose_among(alone, evaluations, replace(rule, over="trial"))
    partners = table[table["test_domain"].isna()]
    parts = [
        choose_among(pd.concat([own, partners]), evaluations, rule)
        for _, own in table[table["test_domain"].notna()].groupby("run")
    ]
    return pd.concat(parts) if parts else selected.chosen


def gain_over_erm(sets: Sequence[Selected], key: RowKey) -> Gain | None:
    """The gain over ERM with the same network, paired over everything both were tested on."""
    if key.variant == "erm":
        return None
    ours, theirs = (
        {(one.data, *at): value for one in sets for at, value in one.accuracies(row).items()}
        for row in (key, RowKey("erm", key.model))
    )
    differences = tuple(ours[at] - theirs[at] for at in ours if at in theirs)
    return Gain(differences) if differences else None


def rows_over(sets: Sequence[Selected]) -> tuple[RowKey, ...]:
    """The rows of a table over data sets; networks count where a data set has several."""
    keys = {key for one in sets for key in one.rows}
    if all(len(one.models) <= 1 for one in sets):
        keys = {RowKey(key.variant, "") for key in keys}
    return in_method_order((key.variant, key) for key in sorted(keys))


def in_method_order(rows: Iterable[tuple[str, _Row]]) -> tuple[_Row, ...]:
    """Rows, each with its method, in the order of methods; the rows of one stay in theirs."""
    rows = list(rows)
    order = titles.in_order({method for method, _ in rows}, titles.METHODS)
    return tuple(row for _, row in sorted(rows, key=lambda row: order.index(row[0])))
