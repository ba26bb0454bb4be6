"""Tables of runs beside the paper's numbers: by test domain, over data sets, and of costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

from riskmatch.report import titles
from riskmatch.report.coverage import notes
from riskmatch.report.published import (
    EFFICIENCY,
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
from riskmatch.report.tables import Amount, Cell, Table, Trials
from riskmatch.runs.frame import Results, read_results
from riskmatch.selection import Rule, check_accuracies, find_rule
from riskmatch.trust import imports_nothing

GAIN = "gain over ERM"
"""Title of the column of paired differences from ERM."""
_ERROR = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"
_GAIN_NOTE = (
    "Gain over ERM: mean difference, paired over test domains and trials, ± half of its 95 % "
    "t-interval."
)
_PAPER_NOTE = f"(paper): as printed in {PAPER}, selection train-val."


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
    rows: Rows = []
    for key in selected.rows:
        cells = [Trials(values) if values else None for values in selected.by_domain(key).values()]
        row = (selected.label(*key), *cells, selected.average(key), gain_over_erm([selected], key))
        rows.append((key.variant, row))
    title = titles.data_title(selected.data)
    part = titles.part_titles(str(selected.cases["own_data"].iloc[0]))["train"]
    caption = f"{title}: accuracy on the {part} of the test domain in per cent, {_ERROR}."
    printed = _printed(PER_DOMAIN.get(selected.data, {}), selected.domains)
    return _accuracy_table(f"{caption} {notes(selected)}", selected.domains, rows, printed)


def overview_table(sets: Sequence[Selected]) -> Table:
    """The paper's Table 2: accuracy averaged over test domains by method and data set."""
    rows: Rows = []
    keys = rows_over(sets)
    for key in keys:
        trials = [one.by_trial(key) for one in sets]
        cells = [Trials(values) if values else None for values in trials]
        average = fmean(map(fmean, trials)) if all(trials) else None
        rows.append((key.variant, (row_label(*key), *cells, average, gain_over_erm(sets, key))))
    columns = [one.data for one in sets]
    published = TABLE2["erm"].columns.keys()
    printed = _printed(TABLE2, columns) if published & set(columns) else []
    caption = " ".join(
        [
            f"Accuracy averaged over test domains in per cent, {_ERROR}.",
            *(f"{_name(one)}: {notes(one)}" for one in sets),
            *_without_runs(sets, keys),
            *([_WRONG] if published <= set(columns) else []),
        ]
    )
    return _accuracy_table(caption, list(map(titles.data_title, columns)), rows, printed)


def efficiency_table(selected: Selected) -> Table:
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours.

    Raises:
        ValueError: finished runs of a method have different batch sizes, so that no time or memory
            is that of the method.
    """
    sizes = _batch_sizes(selected)
    rows: Rows = [
        (key.variant, (selected.label(*key), sizes.get(key), *_costs(selected, key)))
        for key in selected.rows
    ]
    published = EFFICIENCY.get(selected.data, {})
    for method, cost in published.items():
        row = (_theirs(method), None, cost.seconds, Amount(cost.memory, 2), cost.accuracy)
        rows.append((method, row))
    sentences = [
        f"{titles.data_title(selected.data)}: training time and peak memory of the training steps, "
        "without evaluations, each the median over runs; accuracy averaged over test domains in "
        "per cent. Batch size: samples per domain and step.",
        _UNEQUAL_BATCHES if len(set(sizes.values())) > 1 else "",
        notes(selected),
        f"(paper): as printed in {PAPER}, on other machines." if published else "",
    ]
    columns = ("method", "batch size", "training (s)", "memory (GiB)", "accuracy")
    return Table(" ".join(filter(None, sentences)), columns, in_method_order(rows))


_UNEQUAL_BATCHES = (
    "Methods have different batch sizes: compare time and memory only of rows with the same one."
)


def _batch_sizes(selected: Selected) -> dict[RowKey, int]:
    """The batch size of the finished runs of every row."""
    runs = selected.results.runs.set_index("run")["batch_size"]
    sizes: dict[RowKey, int] = {}
    for key in selected.rows:
        own = selected.part(key, selected.alone)
        known = sorted(set(runs.loc[own.loc[own["status"] == "done", "run"]]))
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
    own = selected.part(key, selected.alone)
    done = own.loc[own["status"] == "done", "run"]
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


def _without_runs(sets: Sequence[Selected], keys: Sequence[RowKey]) -> list[str]:
    absent = [
        f"{row_label(*key)} on {_name(one)}"
        for key in keys
        for one in sets
        if one.part(key, one.cases).empty
    ]
    return [f"No runs: {'; '.join(absent)}."] if absent else []


_WRONG = "The paper's averages of {} are as printed; their columns give {}.".format(
    " and ".join(titles.METHODS[method] for method in WRONG_AVERAGES),
    " and ".join(map(str, WRONG_AVERAGES.values())),
)


def _printed(table: Mapping[str, PublishedRow], columns: Sequence[str]) -> Rows:
    """The rows of a published table; their averages belong to all columns of that table."""
    whole = any(set(row.columns) == set(columns) for row in table.values())
    return [
        (
            method,
            (_theirs(method), *map(row.columns.get, columns), row.average if whole else None, None),
        )
        for method, row in table.items()
    ]


def _theirs(method: str) -> str:
    return f"{titles.METHODS[method]} (paper)"


def _accuracy_table(caption: str, columns: Sequence[str], rows: Rows, printed: Rows) -> Table:
    """The table, with the gain over ERM as its last column where there is any."""
    gains = any(row[-1] is not None for _, row in rows)
    header = ("method", *columns, "average", *([GAIN] if gains else []))
    caption = " ".join(
        [caption, *([_GAIN_NOTE] if gains else []), *([_PAPER_NOTE] if printed else [])]
    )
    return Table(
        caption, header, tuple(row[: len(header)] for row in in_method_order(rows + printed))
    )
