"""Tables of runs beside the paper's numbers: by test domain, over data sets, and of costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from riskmatch.metrics import ACCURACY
from riskmatch.report import titles
from riskmatch.report.facts import Facts, lines, selection_facts
from riskmatch.report.gains import gain_columns, gains_over_erm, unit_facts
from riskmatch.report.groups import worst_groups
from riskmatch.report.published import (
    EFFICIENCY,
    PAPER,
    PER_DOMAIN,
    TABLE2,
    WRONG_AVERAGES,
    PublishedRow,
)
from riskmatch.report.samples import DataCache
from riskmatch.report.selected import (
    RowKey,
    Selected,
    in_method_order,
    row_label,
    rows_over,
    select,
)
from riskmatch.report.tables import ERROR, Amount, Cell, Column, Gain, Table, capitalised, number
from riskmatch.runs.frame import Results, read_results
from riskmatch.selection import Rule, find_rule
from riskmatch.statistics import Unit
from riskmatch.trust import imports_nothing

BATCH_SIZE, SECONDS, MEMORY = "batch size", "training (s)", "memory (GiB)"
WORST, GROUP = "worst test domain", "worst group"


@imports_nothing
def tables_of(
    paths: str | Path | Sequence[str | Path] | Results,
    rule: str | Rule = "train-val",
    costs: bool = False,
    after_warmup: bool = False,
    *,
    metric: str | None = None,
    worst: bool = False,
    by: Sequence[str] = (),
    data_dir: Path | None = None,
    unit: Unit = "domains",
) -> list[Table]:
    """The tables of the runs in some folders: one for each data set, then one over all.

    This is what ``riskmatch sweep table`` prints. Damaged runs are left out with a warning. The
    table over all data sets leaves out runs with other data options than most.

    Args:
        paths: as for :func:`riskmatch.results`; or runs that have been read.
        rule: how runs and steps are chosen.
        costs: seconds, memory and the average by method, in place of values by test domain.
        after_warmup: choose among the steps at which the method acts.
        metric: name of what is compared; None is the primary metric of the runs.
        worst: add the worst test domain.
        by: columns of the data; the worst group of samples by their values is added.
        data_dir: folder searched first for the data, with ``by``.
        unit: what intervals and p-values of gains over ERM generalise over: ``domains`` (these,
            trials vary) or ``new-domain`` (domains vary).

    Raises:
        ValueError: the rule needs runs with two test domains, and there are none; or ``costs`` are
            of runs with different batch sizes; or no run has the metric, or their primary metrics
            differ.
    """
    rule = find_rule(rule)
    rule = replace(rule, after_warmup=after_warmup or rule.after_warmup)
    results = paths if isinstance(paths, Results) else read_results(paths, begun=False)
    results.warn()
    selected = select(results, rule, metric)
    pairs = any(one.cases["test_domain"].isna().any() for one in selected.values())
    if rule.domains == "left-out" and not pairs:
        raise ValueError(
            f"The rule {rule.name} needs runs that hold out another domain besides the test "
            "domain, and there are none. Plan them with riskmatch sweep plan --leave-two-out."
        )
    if costs:
        return [efficiency_table(one) for one in selected.values()]
    data = DataCache(data_dir)
    tables = [per_domain_table(one, worst, by, data, unit) for one in selected.values()]
    usual = [one for one in selected.values() if one.data in set(one.cases["own_data"])]
    return [*tables, overview_table(usual, worst, unit)] if len(usual) > 1 else tables


def per_domain_table(
    selected: Selected,
    worst: bool = False,
    by: Sequence[str] = (),
    data: DataCache | None = None,
    unit: Unit = "domains",
) -> Table:
    """The metric by test domain on one data set: a row per method, the paper's below ours.

    Args:
        selected: what the rule chose.
        worst: add the worst test domain.
        by: columns of the data; the worst group of samples by their values is added.
        data: the data sets of runs.
        unit: what intervals of gains generalise over.
    """
    title = titles.data_title(selected.data)
    part = selected.reported_part
    rows = []
    gains = gains_over_erm([selected], selected.rows, unit)
    groups, grouping = worst_groups(selected, by, data or DataCache()) if by else ({}, "")
    for key in selected.rows:
        by_domain, gain = selected.by_domain(key), gains.get(key)
        cells = {domain: selected.trials(values) for domain, values in by_domain.items()}
        average = number(selected.average(key), selected.decimals)
        lowest = selected.worst(key) if worst else None
        label, group = selected.label(*key), groups.get(key)
        rows.append(Row(key.variant, label, cells, average, gain, lowest, group))
    published = _published(selected, PER_DOMAIN.get(selected.data, {}), selected.domains)
    facts = {**selection_facts(selected), **_source(published, "selection train-val")}
    facts |= {GROUP: grouping, **unit_facts(gains.values(), unit)}
    metric = selected.facts
    caption = (
        f"{title}: {metric.title} on the {part} of the test domain{metric.unit}, {ERROR}"
        f"{metric.direction}."
    )
    return values_table(
        " ".join([caption, *lines(facts)]),
        {domain: domain for domain in selected.domains},
        rows + published,
        gains=gain_columns(len(gains), unit),
    )


def overview_table(sets: Sequence[Selected], worst: bool = False, unit: Unit = "domains") -> Table:
    """The paper's Table 2: the metric averaged over test domains by method and data set.

    Values of a metric without an upper bound, such as RMSE, may have another unit in every data
    set, so that they are neither averaged nor compared over data sets.
    """
    names = {one.data: titles.data_title(one.data) for one in sets}
    metric = sets[0].facts
    comparable = len(sets) == 1 or metric.range[1] is not None
    label = sets[0].label if len(sets) == 1 else row_label
    rows, keys = [], rows_over(sets)
    gains = gains_over_erm(sets, keys, unit) if comparable else {}
    for key in keys:
        trials = {one.data: one.by_trial(key) for one in sets}
        cells: dict[str, Cell] = {one.data: one.trials(trials[one.data]) for one in sets}
        row = Row(key.variant, label(*key), cells, None)
        if comparable:
            complete = all(trials.values())
            average = fmean(map(fmean, trials.values())) if complete else None
            lowest = [fmean(one.by_trial(key, metric.worst)) for one in sets if worst and complete]
            row = row._replace(
                average=number(average, sets[0].decimals),
                gain=gains.get(key),
                worst=number(metric.worst(lowest), sets[0].decimals) if lowest else None,
            )
        rows.append(row)
    in_paper = TABLE2["erm"].columns.keys()
    published = _published(sets[0], TABLE2, names) if in_paper & names.keys() else []
    facts = {
        "no runs": _without_runs(sets),
        f"the paper's averages of {' and '.join(map(titles.method_title, WRONG_AVERAGES))}": (
            f"as printed; their columns give {' and '.join(map(str, WRONG_AVERAGES.values()))}"
            * (bool(published) and in_paper <= names.keys())
        ),
        **_source(published, "selection train-val"),
        **unit_facts(gains.values(), unit),
    }
    caption = [
        f"{capitalised(metric.title)} averaged over test domains{metric.unit}, {ERROR}"
        f"{metric.direction}.",
        *(line for one in sets for line in lines(selection_facts(one), _name(one))),
        *lines(facts),
    ]
    return values_table(
        " ".join(caption), names, rows + published, gains=gain_columns(len(gains), unit)
    )


class Row(NamedTuple):
    """A row of values, measured or the paper's."""

    method: str
    label: str
    cells: Mapping[str, Cell]
    """By test domain, data set or cost."""
    average: Cell
    gain: Gain | None = None
    worst: Cell = None
    group: str | None = None


def values_table(
    caption: str,
    columns: Mapping[str, str],
    rows: Iterable[Row],
    average: str = "average",
    gains: Sequence[Column] = (),
) -> Table:
    """A table of rows in the order of methods; ``columns`` are titles by name of the cell."""

    def column(name: str, title: str) -> Column:
        return Column(title, lambda row: row.cells.get(name))

    return Table.of(
        caption,
        [
            Column("method", attrgetter("label")),
            *starmap(column, columns.items()),
            Column(average, attrgetter("average")),
            Column(WORST, attrgetter("worst"), "mean over trials of each trial's", optional=True),
            Column(GROUP, attrgetter("group"), optional=True),
            *gains,
        ],
        in_method_order((row.method, row) for row in rows),
    )


def _published(
    selected: Selected, printed: Mapping[str, PublishedRow], names: Iterable[str]
) -> list[Row]:
    """The paper's rows, of accuracies; their averages are shown where all its columns are."""
    if selected.metric != ACCURACY:
        return []
    whole = any(row.columns.keys() == set(names) for row in printed.values())
    return [
        Row(method, _theirs(method), row.columns, row.average if whole else None)
        for method, row in printed.items()
    ]


def _source(published: Sequence[object], how: str) -> Facts:
    return {"(paper)": f"as printed in {PAPER}, {how}" if published else ""}


def _theirs(method: str) -> str:
    return f"{titles.method_title(method)} (paper)"


def efficiency_table(selected: Selected) -> Table:
    """Seconds, memory and average on one data set: a row per method, the paper's below ours.

    Raises:
        ValueError: finished runs of a method have different batch sizes, so that no time or memory
            is that of the method.
    """
    rows = [_costs(selected, key) for key in selected.rows]
    different = len({row.cells[BATCH_SIZE] for row in rows} - {None}) > 1
    published = [
        Row(
            method,
            _theirs(method),
            {SECONDS: cost.seconds, MEMORY: Amount(cost.memory, 2)},
            cost.accuracy if selected.metric == ACCURACY else None,
        )
        for method, cost in EFFICIENCY.get(selected.data, {}).items()
    ]
    facts = {
        BATCH_SIZE: "samples per domain and step",
        "different batch sizes": "compare time and memory only of rows with the same one"
        * different,
        **selection_facts(selected),
        **_source(published, "on other machines"),
    }
    caption = (
        f"{titles.data_title(selected.data)}: training time and peak memory of the training steps, "
        f"without evaluations, each the median over runs; {selected.facts.title} averaged over "
        f"test domains{selected.facts.unit}{selected.facts.direction}."
    )
    columns = {name: name for name in (BATCH_SIZE, SECONDS, MEMORY)}
    text = " ".join([caption, *lines(facts)])
    return values_table(text, columns, rows + published, selected.facts.title)


def _costs(selected: Selected, key: RowKey) -> Row:
    """Batch size, median time and memory of finished runs, but for those with two test domains.

    These serve ``leave-one-out`` and train on fewer domains.
    """
    runs, evaluations = selected.results.runs, selected.results.evaluations
    rows = selected.part(key, selected.alone)
    done = rows.loc[rows["status"] == "done", "run"]
    sizes = sorted(set(runs.loc[runs["run"].isin(done), "batch_size"]))
    if len(sizes) > 1:
        raise ValueError(
            f"Runs of {selected.label(*key)} on {titles.data_title(selected.data)} have batch "
            f"sizes from {sizes[0]} to {sizes[-1]}, so their times and memory do not compare. Plan "
            "runs with one batch size: riskmatch sweep plan --equal-batches."
        )
    evaluations = evaluations[evaluations["run"].isin(done)]
    before = evaluations.groupby("run")["step"].shift(fill_value=0)
    spent = evaluations["seconds_per_step"] * (evaluations["step"] - before).astype(float)
    times = spent[evaluations["step"] > before].groupby(evaluations["run"]).agg(math.fsum).dropna()
    peaks = evaluations.groupby("run")["peak_memory"].max()
    seconds = median(times) if len(times) else None
    cells: dict[str, Cell] = {
        BATCH_SIZE: int(sizes[0]) if sizes else None,
        SECONDS: None if seconds is None else Amount(float(seconds), 0 if seconds >= 10 else 1),
        MEMORY: Amount(float(median(peaks)) / 2**30, 2) if peaks.any() else None,
    }
    average = number(selected.average(key), selected.decimals)
    return Row(key.variant, selected.label(*key), cells, average)


def _name(selected: Selected) -> str:
    """The data set, with its test domains where the paper has more."""
    title = titles.data_title(selected.data)
    published = PER_DOMAIN[selected.data]["erm"].columns if selected.data in PER_DOMAIN else {}
    some = selected.domains and set(selected.domains) < set(published)
    return f"{title} ({', '.join(selected.domains)} alone)" if some else title


def _without_runs(sets: Sequence[Selected]) -> str:
    return "; ".join(
        f"{row_label(*key)} on {_name(one)}"
        for key in rows_over(sets)
        for one in sets
        if one.part(key, one.cases).empty
    )
