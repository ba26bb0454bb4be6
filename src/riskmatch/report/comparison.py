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

from riskmatch.report import titles
from riskmatch.report.facts import Facts, lines, selection_facts
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
    METRIC,
    RowKey,
    Selected,
    gain_over_erm,
    in_method_order,
    row_label,
    rows_over,
    select,
)
from riskmatch.report.tables import Amount, Cell, Column, Gain, Table, Trials
from riskmatch.runs.frame import Results, read_results
from riskmatch.selection import Rule, find_rule, recorded_metric
from riskmatch.trust import imports_nothing

GAIN = "gain over ERM"
"""Title of the column of paired differences from ERM."""
BATCH_SIZE, SECONDS, MEMORY = "batch size", "training (s)", "memory (GiB)"
PAIRED = "mean difference, paired over test domains and trials, ± half of its 95 % t-interval"
ERROR = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"


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


@imports_nothing
def tables_of_results(
    results: Results, rule: str | Rule = "train-val", costs: bool = False
) -> list[Table]:
    """As :func:`tables_of`, for runs that have been read.

    The table over all data sets leaves out runs with other data options than most.

    Raises:
        ValueError: the rule needs runs with two test domains, and there are none; or ``costs`` are
            of runs with different batch sizes; or all runs are regressions.
    """
    rule = find_rule(rule)
    recorded_metric(results.runs, results.evaluations, METRIC)
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
    rows = []
    for key in selected.rows:
        cells, gain = _trials(selected.by_domain(key)), gain_over_erm([selected], key)
        rows.append(Row(key.variant, selected.label(*key), cells, selected.average(key), gain))
    published = _published(PER_DOMAIN.get(selected.data, {}), selected.domains)
    facts = {**selection_facts(selected), **_source(published, "selection train-val")}
    caption = f"{title}: accuracy on the {part} of the test domain in per cent, {ERROR}."
    return accuracy_table(
        " ".join([caption, *lines(facts)]),
        {domain: domain for domain in selected.domains},
        rows + published,
    )


def overview_table(sets: Sequence[Selected]) -> Table:
    """The paper's Table 2: accuracy averaged over test domains by method and data set."""
    names = {one.data: titles.data_title(one.data) for one in sets}
    label = sets[0].label if len(sets) == 1 else row_label
    rows = []
    for key in rows_over(sets):
        trials = {one.data: one.by_trial(key) for one in sets}
        average = fmean(map(fmean, trials.values())) if all(trials.values()) else None
        gain = gain_over_erm(sets, key)
        rows.append(Row(key.variant, label(*key), _trials(trials), average, gain))
    in_paper = TABLE2["erm"].columns.keys()
    published = _published(TABLE2, names) if in_paper & names.keys() else []
    facts = {
        "no runs": _without_runs(sets),
        f"the paper's averages of {' and '.join(METHODS[method] for method in WRONG_AVERAGES)}": (
            f"as printed; their columns give {' and '.join(map(str, WRONG_AVERAGES.values()))}"
            * (in_paper <= names.keys())
        ),
        **_source(published, "selection train-val"),
    }
    caption = [
        f"Accuracy averaged over test domains in per cent, {ERROR}.",
        *(line for one in sets for line in lines(selection_facts(one), _name(one))),
        *lines(facts),
    ]
    return accuracy_table(" ".join(caption), names, rows + published)


class Row(NamedTuple):
    """A row of accuracies, measured or the paper's."""

    method: str
    label: str
    cells: Mapping[str, Cell]
    """By test domain, data set or cost."""
    average: float | None
    gain: Gain | None = None


def accuracy_table(
    caption: str, columns: Mapping[str, str], rows: Iterable[Row], average: str = "average"
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
            Column(GAIN, attrgetter("gain"), PAIRED, optional=True),
        ],
        in_method_order((row.method, row) for row in rows),
    )


def _trials(values: Mapping[str, tuple[float, ...]]) -> dict[str, Cell]:
    return {name: Trials(trials) for name, trials in values.items() if trials}


def _published(printed: Mapping[str, PublishedRow], names: Iterable[str]) -> list[Row]:
    """The paper's rows; their averages are shown where all its columns are."""
    whole = any(row.columns.keys() == set(names) for row in printed.values())
    return [
        Row(method, _theirs(method), row.columns, row.average if whole else None)
        for method, row in printed.items()
    ]


def _source(published: Sequence[object], how: str) -> Facts:
    return {"(paper)": f"as printed in {PAPER}, {how}" if published else ""}


def _theirs(method: str) -> str:
    return f"{METHODS[method]} (paper)"


def efficiency_table(selected: Selected) -> Table:
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours.

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
            cost.accuracy,
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
        "without evaluations, each the median over runs; accuracy averaged over test domains in "
        "per cent."
    )
    columns = {name: name for name in (BATCH_SIZE, SECONDS, MEMORY)}
    text = " ".join([caption, *lines(facts)])
    return accuracy_table(text, columns, rows + published, average="accuracy")


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
    return Row(key.variant, selected.label(*key), cells, selected.average(key))


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
