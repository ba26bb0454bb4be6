"""Tables at the top of a report: the metric by selection rule, by test domain, and against ERM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

import pandas as pd

from riskmatch.metrics import MetricFacts
from riskmatch.report.comparison import Row, values_table
from riskmatch.report.facts import Facts, draws, joined, lines, summary_of
from riskmatch.report.gains import ADJUSTED, GAIN, VARYING, gain_column, gains_over_erm, unit_facts
from riskmatch.report.selected import (
    TEST_DOMAIN,
    DataSelection,
    PageRuns,
    RowKey,
    Selected,
    choices_by_run,
    row_label,
    rows_over,
)
from riskmatch.report.tables import ERROR, Cell, Column, PValue, Table, capitalised, fixed, number
from riskmatch.report.titles import data_title, run_titles, setting_title
from riskmatch.runs.records import StoredRun
from riskmatch.selection import Rule
from riskmatch.statistics import UNITS

Case = Mapping[Any, Any]
MAX_RUNS = 6
"""Most runs that are listed one by one; more are averaged by method."""
SETTINGS = ("lr", "batch_size", "weight_decay", "dropout", "steps")
"""Numbers that every run has, besides the hyper-parameters of its method."""
LOG_RATIO = 20
"""Ratio of the largest to the smallest value from which on the axis is logarithmic."""


def headline(page: PageRuns, runs: Sequence[StoredRun]) -> Table:
    """The metric under every rule: by run where ``runs`` are all runs, else by method."""
    return by_run(page, runs) if len(runs) == len(page.runs) else by_method(page)


def by_run(page: PageRuns, runs: Sequence[StoredRun]) -> Table:
    """One row per run and test domain; each rule chooses among the steps of the run."""
    configs = [run.config for run in runs]
    titles = dict(zip((config.id for config in configs), run_titles(configs), strict=True))
    main = {one.data: one.main.rule.name for one in page.by_data}
    decimals, facts = {one.data: one.main.decimals for one in page.by_data}, page.facts
    chosen = {
        (row["run"], row["test_domain"], rule): row
        for one in page.by_data
        for rule, selected in one.by_rule.items()
        for row in choices_by_run(selected).to_dict("records")
    }
    table = page.cases[page.cases["test_domain"].notna() & page.cases["run"].isin(titles)]

    def choice(case: Case, rule: str = "") -> Case:
        """What a rule, by default the main one, chooses; empty if nothing."""
        return chosen.get((case["run"], case["test_domain"], rule or main[case["data"]]), {})

    def value(case: Case, rule: str = "") -> float | None:
        return facts.scale * choice(case, rule)["value"] if choice(case, rule) else None

    cases, place = table.to_dict("records"), itemgetter("data", "model", "test_domain", "trial")
    erm = {place(case): value(case) for case in cases if case["method"] == "erm"}

    def gain(case: Case) -> Cell:
        ours, theirs = value(case), erm.get(place(case))
        if case["method"] == "erm" or ours is None or theirs is None:
            return None
        return number(facts.gain(ours, theirs), decimals[case["data"]])

    def column(rule: Rule) -> Column:
        def cell(case: Case) -> Cell:
            return number(value(case, rule.name), decimals[case["data"]])

        return Column(rule.name, cell, summary_of(rule, facts))

    rules = page.main_rules
    return Table.of(
        f"{_caption(page)}{page.facts.direction}.",
        [
            Column("run", lambda case: titles[case["run"]]),
            Column("test domain", lambda case: case["test_domain"]),
            *map(column, page.rules),
            Column(f"step of {rules}", lambda case: choice(case).get("step")),
            Column(GAIN, gain, f"difference in the same trial, {rules}", optional=True),
        ],
        cases,
    )


MethodOnData = tuple[DataSelection, RowKey]


def _worst(row: MethodOnData) -> str | None:
    """Worst value over test domains; on ColoredMNIST the mean over seeds of the worst."""
    data, key = row
    by_domain = data.main.by_domain(key)
    means = {domain: fmean(values) for domain, values in by_domain.items() if values}
    if not means:
        return None
    worst = data.main.facts.worst
    domain = {value: name for name, value in reversed(means.items())}[worst(means.values())]
    if data.is_colored_mnist and len({len(values) for values in by_domain.values()}) == 1:
        lowest = data.spread(tuple(map(worst, zip(*by_domain.values(), strict=True))))
        return f"{lowest} ({domain})"
    return f"{fixed(means[domain], data.main.decimals)} ({domain})"


def by_method(page: PageRuns) -> Table:
    """One row per method; each rule chooses among the runs of a trial and their steps."""
    several = len(page.compared) > 1

    def label(row: MethodOnData) -> str:
        data, key = row
        label = data.main.label(*key)
        return label if data.is_default or several else f"{label} on {data_title(data.data)}"

    def column(rule: Rule) -> Column:
        summary = summary_of(rule, page.facts)
        return Column(rule.name, lambda row: row[0].value(rule.name, row[1]), summary)

    gains = {
        one.data: gains_over_erm([one.compared], one.main.rows, page.unit) for one in page.by_data
    }
    colored = [one.is_colored_mnist for one in page.by_data]
    facts = {
        "averages over test domains": "mean ± standard error over trials; they need a run for "
        "every test domain" * (not all(colored)),
        "ColoredMNIST": f"at {TEST_DOMAIN}, mean ± standard deviation over seeds" * any(colored),
    }
    return Table.of(
        " ".join([f"{_caption(page)}{page.facts.direction}.", *lines(facts)]),
        [
            Column("method", label),
            Column("data set", lambda row: data_title(row[0].data) if several else "", "", True),
            *map(column, page.rules),
            Column(f"{'lowest' if page.facts.higher else 'highest'} test domain", _worst),
            gain_column(page.unit, lambda row: gains[row[0].data].get(row[1])),
        ],
        [(one, key) for one in page.by_data for key in one.main.rows],
    )


def comparison(page: PageRuns, worst: bool = False) -> Table:
    """The metric by method under the main rule: by test domain, or by data set if there are more.

    Mean ± standard error over trials. ``worst`` adds the worst test domain, of one data set.
    """
    sets = page.compared
    comparable = len(sets) == 1 or page.facts.range[1] is not None
    if len(sets) == 1:
        columns = {domain: domain for domain in sets[0].main.domains}
    else:
        columns = {one.data: data_title(one.data) for one in sets}

    def row(key: RowKey) -> Row:
        if len(sets) == 1:
            main, spread = sets[0].main, sets[0].spread
            by_domain = {domain: spread(values) for domain, values in main.by_domain(key).items()}
            average = number(main.average(key), main.decimals)
            lowest = spread(main.by_trial(key, main.facts.worst)) if worst else None
            return Row(key.variant, main.label(*key), by_domain, average, worst=lowest)
        cells = {one.data: one.value(one.main.rule.name, key) for one in sets}
        means = [cell.mean for cell in cells.values() if cell and cell.mean is not None]
        whole = means and len(means) == len(sets) and comparable
        average = number(fmean(means), sets[0].main.decimals) if whole else None
        return Row(key.variant, row_label(*key), cells, average)

    colored = all(one.is_colored_mnist for one in sets)
    spread = "mean ± standard deviation over seeds" if colored else ERROR
    caption = [
        f"{_caption(page)}: {spread}{page.facts.direction}.",
        *lines({one.main.rule.name: summary_of(one.main.rule, page.facts) for one in sets}),
        *(line for one in sets for line in lines(draws(one.main), data_title(one.data))),
    ]
    return values_table(" ".join(caption), columns, map(row, rows_over([s.main for s in sets])))


def differences(page: PageRuns) -> list[dict[str, Any]]:
    """Gains over ERM with 95 % intervals, their unit and adjusted p-values, as JSON values."""
    entries, sets = [], [one.compared for one in page.compared]
    for key, gain in gains_over_erm(sets, rows_over(sets), page.unit).items():
        mean, half = gain.mean or 0.0, gain.error
        entries.append(
            {
                "method": row_label(*key),
                "against": row_label("erm", key.model),
                "unit": UNITS[page.unit],
                "mean": mean,
                "low": None if half is None else mean - half,
                "high": None if half is None else mean + half,
                ADJUSTED: gain.p,
                "n": len(gain.values),
            }
        )
    return entries


def differences_table(entries: Sequence[Mapping[str, Any]], decimals: int = 1) -> Table:
    """The table of :func:`differences`."""
    unit = entries[0]["unit"]
    titles = {"mean": "mean difference", "low": f"95 % low, {unit}", "high": f"95 % high, {unit}"}

    def cell(entry: Mapping[str, Any], name: str) -> Cell:
        value: Any = entry[name]
        if name == ADJUSTED:
            return PValue(value)
        return number(value, decimals) if name in titles else value

    names = ("method", "against", *titles, ADJUSTED, "n")
    columns = (Column(titles.get(name, name), partial(cell, name=name)) for name in names)
    return Table.of("Paired differences", columns, entries)


def verdict(page: PageRuns) -> Facts:
    """Whether a method is better than ERM, what to expect, and the rule that decides.

    Empty where no method has a run on every test domain.
    """
    sets = [one.compared for one in page.compared]
    keys = rows_over(sets)
    by_row = gains_over_erm(sets, keys, page.unit)
    differing = {key: gain.mean or 0.0 for key, gain in by_row.items() if gain.significant}
    better = [key for key, mean in differing.items() if mean > 0]
    worse = [key for key, mean in differing.items() if mean < 0]
    candidates = better or [key for key in keys if key.variant == "erm"] or list(keys)
    levels = {key: values for key in candidates if (values := _levels(sets, key))}
    if not levels:
        return {}

    def listed(keys: Sequence[RowKey]) -> str:
        return joined(
            f"{row_label(*key)} ({by_row[key]}, {ADJUSTED} {PValue(by_row[key].p)})" for key in keys
        )

    facts, decimals = page.facts, page.compared[0].main.decimals
    pick = max if facts.higher else min
    best = pick(levels, key=lambda key: fmean(levels[key].values()))
    percent = facts.percent
    low, high = (
        fixed(choose(levels[best].values()), 0 if percent else decimals) for choose in (min, max)
    )
    places = list(levels[best])
    expected = f"{low if low == high else f'{low}–{high}'}{' %' * percent}"
    where = f"over {len(places)} test domains" if len(places) > 1 else f"on {places[0][1]}"
    few = "; one test domain says little of others" * (len(places) == 1)
    known = any(gain.p is not None for gain in by_row.values())
    none = "no method" if known else "unknown"
    oracle = any(one.main.rule.domains == "test" for one in page.compared)
    return {
        "better than ERM": listed(better) or (none if by_row else "unknown, no run of ERM to pair"),
        "worse than ERM": listed(worse),
        "unit": f"{UNITS[page.unit]}, {VARYING[page.unit]}" * bool(by_row),
        **unit_facts(by_row.values(), page.unit),
        f"expected {facts.title}": f"{expected} {where} with {row_label(*best)}{few}",
        "rule": "a method is better or worse than ERM where the p-value of its paired gains, "
        f"adjusted for all {len(by_row)} comparisons together by step-down max-t (by Holm's method "
        f"where their runs differ), is below 0.05; ± is half of a 95 % t-interval of one method "
        f"alone. The expected {facts.title} is the range over test domains, each the mean over "
        f"trials, by {page.main_rules}, of the best such method, else of ERM"
        + ". It is optimistic: the choice uses the test domain itself"
        * oracle,
    }


def _levels(sets: Sequence[Selected], key: RowKey) -> dict[tuple[str, str], float]:
    """Mean value of a row by data set and test domain."""
    return {
        (one.data, domain): fmean(values)
        for one in sets
        for domain, values in one.by_domain(key).items()
        if values
    }


def _caption(page: PageRuns) -> str:
    """What the numbers are, with the name of the part of the test domain that is reported."""
    parts = dict.fromkeys(one.main.reported_part for one in page.by_data)
    metric = page.facts
    return (
        f"{capitalised(metric.title)}{metric.unit} on the {' or '.join(parts)} of the test domain, "
        "at the step chosen by each selection rule"
    )


def hyperparameters(page: PageRuns) -> list[dict[str, Any]]:
    """Charts of the metric against each hyper-parameter that differs between runs, by method.

    Methods with a hyper-parameter of their own come first. A point ``[value, metric, test domain]``
    is a run on a test domain, with the metric in the unit of tables at the step that the main rule
    chooses within the run.
    """
    entries = []
    for one in page.compared:
        runs = one.main.results.runs
        columns = [*(str(name) for name in runs if str(name).startswith("hparams/")), *SETTINGS]
        settings = runs.drop(columns=["model", "variant", "data"])
        rows = choices_by_run(one.main).merge(settings, on="run")
        for key in one.main.rows:
            part = one.main.part(key, rows)
            charts = [chart for name in columns if (chart := _chart(part, name, page.facts))]
            if charts:
                entries.append({"method": one.main.label(*key), "charts": charts})
    return sorted(entries, key=lambda entry: all(c["name"] in SETTINGS for c in entry["charts"]))


def _chart(runs: pd.DataFrame, column: str, metric: MetricFacts) -> dict[str, Any] | None:
    """Chart of one hyper-parameter; None where it is no number or has one value."""
    values = pd.to_numeric(runs[column], errors="coerce")
    # Without runs, a column of texts would stay one.
    booleans = runs[column].map(lambda value: isinstance(value, bool)).astype(bool)
    known = values.notna() & ~booleans
    if values[known].nunique() < 2:
        return None
    low, high = float(values[known].min()), float(values[known].max())
    name = column.removeprefix("hparams/")
    scores = metric.scale * runs["value"][known].astype(float)
    points = zip(values[known], scores, runs["test_domain"][known], strict=True)
    return {
        "name": name,
        "title": setting_title(name),
        "log": 0 < LOG_RATIO * low <= high,
        "points": [[float(value), float(score), str(domain)] for value, score, domain in points],
    }
