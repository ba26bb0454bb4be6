"""Runs grouped for tables and reports: what selection rules choose, by data set, method, network.

In a report, runs on ColoredMNIST with several test domains, 0.9 among them, follow the protocol of
the paper's Table 1: rules ``colored-mnist-best`` and ``colored-mnist-last``, and mean ± standard
deviation over seeds at the test domain 0.9. Other runs follow DomainBed's rules.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeVar

import pandas as pd

from riskmatch.metrics import MetricFacts
from riskmatch.report import titles
from riskmatch.report.published import METHODS
from riskmatch.report.tables import Spread, Trials, decimals_of
from riskmatch.runs import records
from riskmatch.runs.frame import Results, read_results
from riskmatch.runs.later_metric import with_metric
from riskmatch.runs.method import part_title
from riskmatch.runs.records import StoredRun
from riskmatch.runs.task import metric_facts
from riskmatch.selection import (
    RULES,
    Rule,
    applies,
    cases,
    choose_among,
    find_rule,
    recorded_metric,
)
from riskmatch.statistics import UNITS, Unit
from riskmatch.validation import check_option

DOMAINBED_RULES = [RULES[name] for name in ("train-val", "test-val", "leave-one-out")]
COLORED_MNIST_RULES = [RULES[name] for name in ("colored-mnist-best", "colored-mnist-last")]
TEST_DOMAIN = "0.9"
"""Test domain of the ColoredMNIST protocol."""
NO_GRADIENT = "†"
"""Mark of methods whose penalty changes no weight of the network."""
_Row = TypeVar("_Row")


class RowKey(NamedTuple):
    """The method and the network of a row."""

    variant: str
    model: str
    """Empty if all runs share one network."""
    title: str = ""
    """That of the method, as its runs state it."""


def row_label(variant: str, model: str = "", title: str = "") -> str:
    """The name of a row.

    Example:
        >>> row_label("vrex"), row_label("mine:Robust", "lite0", "Robust ERM")
        ('VREx', 'Robust ERM, lite0')
    """
    title = title or titles.method_title(variant)
    return f"{title}, {part_title(model)}" if model else title


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
    metric: str
    """Name of the metric that the rule compares and tables show."""

    @property
    def facts(self) -> MetricFacts:
        """What is known about the metric."""
        return facts_in(self.results, self.metric)

    @cached_property
    def decimals(self) -> int:
        """Decimals of the metric in tables: one in per cent, else four digits of the largest."""
        return 1 if self.facts.percent else decimals_of(self.chosen["value"])

    @property
    def reported_part(self) -> str:
        """Name of the part of a test domain that is reported."""
        first = self.cases.iloc[0]
        return titles.part_titles(first["own_data"], json.loads(first["data_options"]))["train"]

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
        keys = set(zip(*(self.cases[name] for name in RowKey._fields), strict=True))
        return in_method_order((key[0], RowKey(*key)) for key in sorted(keys))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The networks."""
        return tuple(sorted({key.model for key in self.rows}))

    def label(self, variant: str, model: str, title: str = "") -> str:
        """The name of a row; it names the network where there are several.

        A mark says that no weight of the network has a gradient of the penalty, see
        :func:`riskmatch.report.facts.activity`.
        """
        label = row_label(variant, model if len(self.models) > 1 else "", title)
        return f"{label} {NO_GRADIENT}" if (variant, model) in self._marked else label

    @cached_property
    def _marked(self) -> set[tuple[str, str]]:
        """Variant and model, or none, of the rows with a run without such a gradient."""
        marked = self.cases.loc[self.cases["no_gradient"].eq(True), ["variant", "model"]]
        pairs = set(marked.itertuples(index=False, name=None))
        return pairs | {(variant, "") for variant, _ in pairs}

    def part(self, key: RowKey, frame: pd.DataFrame) -> pd.DataFrame:
        """The part of ``cases``, ``evaluated`` or ``chosen`` that belongs to a row."""
        rows = frame[frame["variant"] == key.variant]
        return rows[rows["model"] == key.model] if key.model else rows

    def values(self, key: RowKey) -> dict[tuple[str, int], float]:
        """The metric in the unit of tables, by test domain and trial, in the order of trials."""
        rows = self.part(key, self.chosen)  # sorted by case
        columns = zip(rows["test_domain"], rows["trial"], rows["value"], strict=True)
        return {(domain, trial): self.facts.scale * value for domain, trial, value in columns}

    def by_domain(self, key: RowKey) -> dict[str, tuple[float, ...]]:
        """The values of the trials, by test domain."""
        by_domain: dict[str, list[float]] = defaultdict(list)
        for (domain, _), value in self.values(key).items():
            by_domain[domain].append(value)
        return {name: tuple(by_domain[name]) for name in self.domains}

    def by_trial(
        self, key: RowKey, over_domains: Callable[[list[float]], float] = fmean
    ) -> tuple[float, ...]:
        """The means over test domains of the trials that have every domain, or other summaries."""
        by_trial: dict[int, list[float]] = defaultdict(list)
        for (_, trial), value in self.values(key).items():
            by_trial[trial].append(value)
        whole = len(self.domains)
        return tuple(
            over_domains(values) for _, values in sorted(by_trial.items()) if len(values) == whole
        )

    def trials(self, values: tuple[float, ...]) -> Trials | None:
        """Mean ± standard error of trials; None without any."""
        return Trials(values, self.decimals) if values else None

    def average(self, key: RowKey) -> float | None:
        """The mean of :meth:`by_trial`; None where no trial has every test domain."""
        trials = self.by_trial(key)
        return fmean(trials) if trials else None

    def worst(self, key: RowKey) -> Trials | None:
        """The worst test domain of each trial that has every one."""
        return self.trials(self.by_trial(key, self.facts.worst))


def facts_in(results: Results, metric: str) -> MetricFacts:
    """What is known about a metric of some runs; they may have no evaluation yet."""
    return metric_facts(metric, results.metrics)


def select(
    results: Results, rule: str | Rule = "train-val", metric: str | None = None
) -> dict[str, Selected]:
    """What a rule chooses on every data set, by its name, in the order of tables.

    Args:
        results: runs; those that are not in their plan, where there is one, do not count.
        rule: how runs and steps are chosen.
        metric: name of what is compared; None is the primary metric of the runs.

    Raises:
        ValueError: no run has the metric, or the runs have different primary metrics.
    """
    results = with_metric_of(results, metric)
    table = planned_cases(results)
    name = recorded_metric(table, results.evaluations, metric)
    return select_among(table, results, find_rule(rule), name)


def with_metric_of(results: Results, metric: str | None) -> Results:
    """Runs with a metric of the user's own that their records lack, at the last step."""
    evaluations = with_metric(results.runs, results.evaluations, metric)
    return replace(results, evaluations=evaluations)


def planned_cases(results: Results) -> pd.DataFrame:
    """The cases of runs, or of a plan where there is one; see :func:`riskmatch.selection.cases`."""
    table = cases(results.runs, results.plan)
    planned = {config.id for config in results.plan}
    return table[table["run"].isin(planned)] if planned else table


def select_among(
    table: pd.DataFrame, results: Results, rule: Rule, metric: str
) -> dict[str, Selected]:
    """As :func:`select`, of cases and a metric that are known already."""
    chosen = choose_among(table, results.evaluations, rule, metric)
    return {
        data: Selected(
            data,
            rule,
            table[table["data"] == data],
            chosen[chosen["data"] == data],
            results,
            metric,
        )
        for data in titles.in_order(set(table["data"]), titles.DATA)
    }


def choices_by_run(selected: Selected) -> pd.DataFrame:
    """What the rule chooses among the steps of every single run; trials are numbers of runs."""
    table, evaluations, rule = selected.cases, selected.results.evaluations, selected.rule
    metric = selected.metric
    if rule.domains != "left-out":
        alone = table.assign(trial=pd.factorize(table["run"])[0])
        return choose_among(alone, evaluations, replace(rule, over="trial"), metric)
    partners = table[table["test_domain"].isna()]
    parts = [
        choose_among(pd.concat([rows, partners]), evaluations, rule, metric)
        for _, rows in table[table["test_domain"].notna()].groupby("run")
    ]
    return pd.concat(parts) if parts else selected.chosen


def rows_over(sets: Sequence[Selected]) -> tuple[RowKey, ...]:
    """The rows of a table over data sets; networks count where a data set has several."""
    keys = {key for one in sets for key in one.rows}
    if all(len(one.models) <= 1 for one in sets):
        keys = {key._replace(model="") for key in keys}
    return in_method_order((key.variant, key) for key in sorted(keys))


def in_method_order(rows: Iterable[tuple[str, _Row]]) -> tuple[_Row, ...]:
    """Rows, each with its method, in the order of methods; the rows of one stay in theirs."""
    rows = list(rows)
    order = titles.in_order({method for method, _ in rows}, METHODS)
    return tuple(row for _, row in sorted(rows, key=lambda row: order.index(row[0])))


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

    def value(self, rule: str, key: RowKey) -> Spread | None:
        """The metric of a row: averaged over test domains, on ColoredMNIST at ``TEST_DOMAIN``."""
        selected = self.by_rule.get(rule)
        if selected is None:
            return None
        if self.is_colored_mnist:
            return self.spread(selected.by_domain(key).get(TEST_DOMAIN, ()))
        return self.spread(selected.by_trial(key))

    def spread(self, values: tuple[float, ...]) -> Spread | None:
        """Mean ± standard error over trials; on ColoredMNIST ± standard deviation over seeds."""
        if not values or not self.is_colored_mnist:
            return self.main.trials(values)
        return Spread(values, self.main.decimals)


@dataclass(frozen=True)
class PageRuns:
    """Runs of a report."""

    results: Results
    cases: pd.DataFrame
    """Rows of :func:`riskmatch.selection.cases`."""
    by_data: tuple[DataSelection, ...]
    """Data sets in the order of tables."""
    metric: str
    """Name of the metric that is shown."""
    unit: Unit = "domains"
    """What intervals of gains generalise over."""

    @property
    def facts(self) -> MetricFacts:
        """What is known about the metric."""
        return facts_in(self.results, self.metric)

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run."""
        return self.results.runs

    @property
    def compared(self) -> list[DataSelection]:
        """Data sets on which methods are compared: those with default data options."""
        return [one for one in self.by_data if one.is_default]

    @property
    def main_rules(self) -> str:
        """Names of the main rules."""
        return " or ".join(dict.fromkeys(one.main.rule.name for one in self.by_data))

    @property
    def rules(self) -> list[Rule]:
        """Rules that choose at least one run."""
        chosen = [s.rule for one in self.by_data for s in one.by_rule.values() if len(s.chosen)]
        return [rule for rule in (*DOMAINBED_RULES, *COLORED_MNIST_RULES) if rule in chosen]


def select_runs(
    paths: str | Path | Sequence[str | Path], metric: str | None = None, unit: Unit = "domains"
) -> PageRuns:
    """Read the runs below some paths and apply the selection rules.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged, none has the metric, or their primary metrics differ; or
            there is no such unit.
    """
    check_option("unit", unit, UNITS)
    results = with_metric_of(read_results(paths), metric)
    table = planned_cases(results)
    metric = recorded_metric(table, results.evaluations, metric)
    several = table["test_domain"].notna() & table["test_domains"].map(
        lambda tests: len(tests) > 1 and TEST_DOMAIN in tests
    )
    colored = table["data"].isin(
        set(table.loc[several & (table["own_data"] == "colored-mnist"), "data"])
    )
    by_data: dict[str, dict[str, Selected]] = defaultdict(dict)
    for rules, rows in ((DOMAINBED_RULES, table[~colored]), (COLORED_MNIST_RULES, table[colored])):
        for rule in rules:
            for data, one in select_among(rows[applies(rule, rows)], results, rule, metric).items():
                by_data[data][rule.name] = one
    order = titles.in_order(set(by_data), titles.DATA)
    selections = tuple(DataSelection(data, by_data[data]) for data in order)
    return PageRuns(results, table, selections, metric, unit)


def read_runs(frame: pd.DataFrame) -> list[StoredRun]:
    """Read the records of the runs in a data frame of :func:`riskmatch.results`, in its order."""
    folders = map(Path, frame.drop_duplicates("run")["folder"])
    return [StoredRun(folder, records.read(folder)) for folder in folders]


def find_run(name: str | None, out: Path) -> Path:
    """Folder of a run, by path or by the first digits of its id; None gives the newest run.

    Args:
        name: path, first digits of an id, or None.
        out: folder of the runs.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: the digits fit several runs.
    """
    if name is None:
        files = list(out.glob(f"*/{records.FILE}"))
        if not files:
            raise FileNotFoundError(
                f"There is no run in {out}/. Name one, or train one: riskmatch train"
            )
        return max(files, key=lambda file: file.stat().st_mtime).parent
    if Path(name).exists():
        return Path(name)
    matches = sorted(path for path in out.glob(f"{name}*") if path.is_dir())
    if not matches:
        raise FileNotFoundError(f"There is no folder {name}, and no run of that id in {out}/.")
    if len(matches) > 1:
        raise ValueError(f"{len(matches)} runs in {out}/ start with {name}; give more digits.")
    return matches[0]
