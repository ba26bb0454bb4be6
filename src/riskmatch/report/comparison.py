"""Tables of accuracies, ours beside the paper's: by test domain, and over data sets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import fmean

from riskmatch.report import titles
from riskmatch.report.coverage import how
from riskmatch.report.difference import Difference, paired
from riskmatch.report.published import PAPER, PER_DOMAIN, TABLE2, WRONG_AVERAGES, Row
from riskmatch.report.selected import RowKey, Selected, row_label, rows_over
from riskmatch.report.tables import Cell, Table, Trials
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord

_ERROR = "mean ± standard error (standard deviation / √trials) over trials"
_AGAINST = "− ERM"
_INTERVAL = (
    f"{_AGAINST}: the mean difference from ERM, paired over test domains and trials, ± half of its "
    "95 % t-interval."
)


def per_domain_table(
    runs: Iterable[RunRecord], data: str, rule: str = "train-val", plan: Iterable[RunConfig] = ()
) -> Table:
    """Accuracy by test domain on one data set: a row per method, the paper's below ours.

    Args:
        runs: records, of any data sets.
        data: the data set.
        rule: how runs and steps are chosen.
        plan: the runs there should be; those that are missing are named, others left out.
    """
    selected = Selected.of(runs, data, rule, plan)
    published = PER_DOMAIN.get(data, {})
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for key in selected.rows:
        trials = selected.by_domain(key)
        cells = [Trials(values) if values else None for values in trials.values()]
        row = (selected.label(key), *cells, selected.average(key), against_erm([selected], key))
        rows.setdefault(key.method, []).append(row)
    for method, printed in published.items():
        theirs = _cells(printed, selected.domains, published)
        rows.setdefault(method, []).append((_theirs(method), *theirs))
    title = titles.DATA.get(data, data)
    return _table(
        f"{title}, accuracy on the test domain in per cent: {_ERROR}. {how(selected)}",
        selected.domains,
        rows,
        bool(published),
    )


def overview_table(
    runs: Iterable[RunRecord], rule: str = "train-val", plan: Iterable[RunConfig] = ()
) -> Table:
    """The paper's Table 2: accuracy averaged over test domains, a row per method.

    The columns are the data sets of the runs, or of the plan. See :func:`per_domain_table`.
    """
    runs, plan = tuple(runs), tuple(plan)
    names = {config.data for config in plan or [run.config for run in runs]}
    sets = [Selected.of(runs, data, rule, plan) for data in titles.in_order(names, titles.DATA)]
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    keys = rows_over(sets)
    for key in keys:
        trials = [s.by_trial(key) for s in sets]
        cells = [Trials(values) if values else None for values in trials]
        average = fmean(map(fmean, trials)) if all(trials) else None
        row = (row_label(key), *cells, average, against_erm(sets, key))
        rows.setdefault(key.method, []).append(row)
    columns = [s.data for s in sets]
    theirs = set(columns) & TABLE2["erm"].columns.keys()
    for method, printed in TABLE2.items() if theirs else ():
        rows.setdefault(method, []).append((_theirs(method), *_cells(printed, columns, TABLE2)))
    told = " ".join(f"{_name(s)}. {how(s)}" for s in sets)
    wrong = _WRONG if theirs == TABLE2["erm"].columns.keys() else ""
    absent = [f"{row_label(key)} on {_name(s)}" for key in keys for s in sets if not s.has(key)]
    told += f" No runs: {'; '.join(absent)}." if absent else ""
    return _table(
        f"Accuracy averaged over test domains, in per cent: {_ERROR}. {told}{wrong}",
        [titles.DATA.get(data, data) for data in columns],
        rows,
        bool(theirs),
    )


def _name(selected: Selected) -> str:
    """The data set, with its test domains where a published table has more."""
    title = titles.DATA.get(selected.data, selected.data)
    published = PER_DOMAIN[selected.data]["erm"].columns if selected.data in PER_DOMAIN else {}
    some = selected.domains and set(selected.domains) < set(published)
    return f"{title} ({', '.join(selected.domains)} alone)" if some else title


_WRONG = " The paper's averages of {} are as printed; their columns give {}.".format(
    " and ".join(titles.METHODS[method] for method in WRONG_AVERAGES),
    " and ".join(map(str, WRONG_AVERAGES.values())),
)


def against_erm(sets: Sequence[Selected], key: RowKey) -> Difference | None:
    """The difference from ERM with the same network, over everything both were tested on."""
    if key.method == "erm":
        return None
    return paired(_all(sets, key), _all(sets, RowKey("erm", key.model)))


def _all(sets: Sequence[Selected], key: RowKey) -> dict[Hashable, float]:
    return {(s.data, *at): value for s in sets for at, value in s.accuracies(key).items()}


def _cells(row: Row, columns: Sequence[str], table: Mapping[str, Row]) -> list[Cell]:
    """A row of a published table; its average belongs to all columns of that table."""
    shown = [row.columns.get(column) for column in columns]
    whole = set(table["erm"].columns) == set(columns)
    return [*shown, row.average if whole else None, None]


def _theirs(method: str) -> str:
    return f"{titles.METHODS[method]} (paper)"


def _table(
    caption: str,
    columns: Sequence[str],
    rows: dict[str, list[tuple[Cell, ...]]],
    published: bool,
) -> Table:
    """The table, with the difference from ERM as its last column where there is one."""
    order = titles.in_order(set(rows), titles.METHODS)
    ordered = [row for method in order for row in rows[method]]
    against = any(row[-1] is not None for row in ordered)
    if against:
        caption += f" {_INTERVAL}"
    if published:
        caption += f" (paper): as printed by {PAPER}, selection train-val."
    titled = ("method", *columns, "average", *([_AGAINST] if against else []))
    return Table(caption, titled, tuple(row[: len(titled)] for row in ordered))
