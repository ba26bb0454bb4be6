"""Tables of runs beside the paper's numbers: by test domain, over data sets, and of costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median

from riskmatch.report import titles
from riskmatch.report.facts import lines, selection_facts
from riskmatch.report.published import (
    EFFICIENCY,
    METHODS,
    PAPER,
    PER_DOMAIN,
    TABLE2,
    WRONG_AVERAGES,
    PublishedRow,
)
from riskmatch.report.selected import (
    RowKey,
    Selected,
    gain_over_erm,
    in_method_order,
    row_label,
    rows_over,
    select,
)
from riskmatch.report.tables import Amount, Cell, Column, Table, Trials
from riskmatch.runs.frame import Results, read_results
from riskmatch.selection import Rule, check_accuracies, find_rule
from riskmatch.trust import imports_nothing

GAIN = "gain over ERM"
"""Title of the column of paired differences from ERM."""
PAIRED = "mean difference, paired over test domains and trials, ± half of its 95 % t-interval"
ERROR = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"


Rows = list[tuple[str, tuple[Cell, ...]]]
"""Rows of a table, each with its method, by which tables are ordered."""


def tables_of(
    paths: str | Path | Sequence[str | Path],
    rule: str | Rule = "train-val",
    costs: bool = False,
    after_warmup: bool = False,
) -> list[Table]:
    """The tables of the runs in some folders: one for each data set, then one over all.

    This is what ``riskmatch sweep table`` prints. Damaged runs are left out with a warning.

    Args:
        paths: as for :func:`riskmatch.results`.
        rule: how runs and steps are chosen.
        costs: seconds, memory and accuracy by method, in place of accuracy by test domain.
        after_warmup: choose among the steps at which the method acts.
    """
    rule = find_rule(rule)
    results = read_results(paths, begun=False)
    results.warn()
    after_warmup = after_warmup or rule.after_warmup
    return tables_of_results(results, replace(rule, after_warmup=after_warmup), costs)


def tables_of_results(
    results: Results, rule: str | Rule = "train-val", costs: bool = False
) -> list[Table]:
    """As :func:`tables_of`, for runs that have been read.

    The table over all data sets leaves out runs with other data options than most.

    Raises:
        ValueError: the rule needs runs with two test domains, and there are none; or ``costs`` are
            of runs with different batch sizes; or all runs are regressions.
    """
    return _tables(results, find_rule(rule), costs)


@imports_nothing
def _tables(results: Results, rule: Rule, costs: bool) -> list[Table]:
    check_accuracies(results.evaluations)
    selected = select(results, rule)
    pairs = any(one.cases["test_domain"].isna().any() for one in selected.values())
    if rule.domains == "left-out" and not pairs:
        raise ValueError(
            f"The rule {rule.name} needs runs that hold out another domain besides the test "
            "domain, and there are none. Plan them with riskmatch sweep plan --leave-two-out."
        )
    if costs:
        return [efficiency_table(one) for one in selected.values()]
    tables = [per_domain_table(one) for one in selected.values()]
    usual = [one for one in selected.values() if one.data in set(one.cases["own_data"])]
    return [*tables, overview_table(usual)] if len(usual) > 1 else tables


def per_domain_table(selected: Selected) -> Table:
    """Accuracy by test domain on one data set: a row per method, the paper's below ours."""
    title = titles.data_title(selected.data)
    part = titles.part_titles(str(selected.cases["own_data"].iloc[0]))["train"]
    caption = f"{title}: accuracy on the {part} of the test domain in per cent, {ERROR}."
    return _accuracy_table(
        " ".join([caption, *lines(selection_facts(selected))]),
        [(domain, domain) for domain in selected.domains],
        [selected],
        {key: list(selected.by_domain(key).values()) for key in selected.rows},
        {key: selected.average(key) for key in selected.rows},
        PER_DOMAIN.get(selected.data, {}),
    )


def overview_table(sets: Sequence[Selected]) -> Table:
    """The paper's Table 2: accuracy averaged over test domains by method and data set."""
    names = [one.data for one in sets]
    trials = {key: [one.by_trial(key) for one in sets] for key in rows_over(sets)}
    published = TABLE2["erm"].columns.keys()
    facts = [line for one in sets for line in lines(selection_facts(one), _name(one))]
    caption = " ".join(
        [
            f"Accuracy averaged over test domains in per cent, {ERROR}.",
            *facts,
            *lines({"no runs": _without_runs(sets, trials)}),
            *([_WRONG] if published <= set(names) else []),
        ]
    )
    return _accuracy_table(
        caption,
        [(name, titles.data_title(name)) for name in names],
        sets,
        trials,
        {key: fmean(map(fmean, v)) if all(v) else None for key, v in trials.items()},
        TABLE2 if published & set(names) else {},
    )


def _accuracy_table(
    caption: str,
    columns: Sequence[tuple[str, str]],
    sets: Sequence[Selected],
    measured: Mapping[RowKey, list[tuple[float, ...]]],
    averages: Mapping[RowKey, float | None],
    published: Mapping[str, PublishedRow],
) -> Table:
    """Accuracies of our rows and the paper's; ``columns`` are names in the paper with titles."""
    names = [name for name, _ in columns]
    whole = any(set(row.columns) == set(names) for row in published.values())
    label = sets[0].label if len(sets) == 1 else row_label
    rows: Rows = []
    for key, values in measured.items():
        cells = [Trials(trials) if trials else None for trials in values]
        row = (label(*key), *cells, averages[key], gain_over_erm(sets, key))
        rows.append((key.variant, row))
    for method, printed in published.items():
        average = printed.average if whole else None
        rows.append((method, (_theirs(method), *map(printed.columns.get, names), average, None)))
    shown = [Column(title, itemgetter(k + 1)) for k, (_, title) in enumerate(columns)]
    table = Table.of(
        caption,
        [
            Column("method", itemgetter(0)),
            *shown,
            Column("average", itemgetter(-2)),
            Column(GAIN, itemgetter(-1), PAIRED, optional=True),
        ],
        in_method_order(rows),
    )
    note = f" (paper): as printed in {PAPER}, selection train-val." * bool(published)
    return replace(table, caption=table.caption + note)


def _theirs(method: str) -> str:
    return f"{METHODS[method]} (paper)"


def efficiency_table(selected: Selected) -> Table:
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours.

    Raises:
        ValueError: finished runs of a method have different batch sizes, so that no time or memory
            is that of the method.
    """
    sizes, published = _batch_sizes(selected), EFFICIENCY.get(selected.data, {})
    rows: Rows = [
        (key.variant, (selected.label(*key), sizes.get(key), *_costs(selected, key)))
        for key in selected.rows
    ]
    for method, cost in published.items():
        row = (_theirs(method), None, cost.seconds, Amount(cost.memory, 2), cost.accuracy)
        rows.append((method, row))
    caption = [
        f"{titles.data_title(selected.data)}: training time and peak memory of the training steps, "
        "without evaluations, each the median over runs; accuracy averaged over test domains in "
        "per cent. Batch size: samples per domain and step.",
        "Methods have different batch sizes: compare time and memory only of rows with the same "
        "one."
        if len(set(sizes.values())) > 1
        else "",
        *lines(selection_facts(selected)),
        f"(paper): as printed in {PAPER}, on other machines." if published else "",
    ]
    columns = ("method", "batch size", "training (s)", "memory (GiB)", "accuracy")
    return Table(" ".join(filter(None, caption)), columns, in_method_order(rows))


def _batch_sizes(selected: Selected) -> dict[RowKey, int]:
    """The batch size of the finished runs of every row."""
    runs = selected.results.runs.set_index("run")["batch_size"]
    sizes: dict[RowKey, int] = {}
    for key in selected.rows:
        rows = selected.part(key, selected.alone)
        known = sorted(set(runs.loc[rows.loc[rows["status"] == "done", "run"]]))
        if len(known) > 1:
            raise ValueError(
                f"Runs of {selected.label(*key)} on {titles.data_title(selected.data)} have "
                f"batch sizes from {known[0]} to {known[-1]}, so their times and memory do not "
                "compare. Plan runs with one batch size: riskmatch sweep plan --equal-batches."
            )
        if known:
            sizes[key] = int(known[0])
    return sizes


def _costs(selected: Selected, key: RowKey) -> tuple[Cell, ...]:
    """Median time and memory of finished runs, but for those with two test domains.

    These serve ``leave-one-out`` and train on fewer domains.
    """
    rows = selected.part(key, selected.alone)
    done = rows.loc[rows["status"] == "done", "run"]
    evaluations = selected.results.evaluations
    evaluations = evaluations[evaluations["run"].isin(done)]
    before = evaluations.groupby("run")["step"].shift(fill_value=0)
    spent = evaluations["seconds_per_step"] * (evaluations["step"] - before).astype(float)
    times = spent[evaluations["step"] > before].groupby(evaluations["run"]).agg(math.fsum).dropna()
    peaks = evaluations.groupby("run")["peak_memory"].max()
    seconds = median(times) if len(times) else None
    return (
        None if seconds is None else Amount(float(seconds), 0 if seconds >= 10 else 1),
        Amount(float(median(peaks)) / 2**30, 2) if peaks.any() else None,
        selected.average(key),
    )


def _name(selected: Selected) -> str:
    """The data set, with its test domains where the paper has more."""
    title = titles.data_title(selected.data)
    published = PER_DOMAIN[selected.data]["erm"].columns if selected.data in PER_DOMAIN else {}
    some = selected.domains and set(selected.domains) < set(published)
    return f"{title} ({', '.join(selected.domains)} alone)" if some else title


def _without_runs(sets: Sequence[Selected], keys: Iterable[RowKey]) -> str:
    return "; ".join(
        f"{row_label(*key)} on {_name(one)}"
        for key in keys
        for one in sets
        if one.part(key, one.cases).empty
    )


_WRONG = "The paper's averages of {} are as printed; their columns give {}.".format(
    " and ".join(METHODS[method] for method in WRONG_AVERAGES),
    " and ".join(map(str, WRONG_AVERAGES.values())),
)
