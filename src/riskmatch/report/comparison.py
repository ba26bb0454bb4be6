"""Tables of runs beside the paper's numbers: by test domain, over data sets, and of costs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import pandas as pd

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
from riskmatch.report.tables import Amount, Cell, Gain, Table, Trials, paired
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import read_results
from riskmatch.selection import Rule, cases, choose_among, find_rule

GAIN = "gain over ERM"
"""Title of the column of paired differences from ERM."""
_ERROR = "mean ± standard error over trials (standard deviation / √trials)"
_GAIN_NOTE = (
    "Gain over ERM: mean difference, paired over test domains and trials, ± half of its 95 % "
    "t-interval."
)
_PAPER_NOTE = f"(paper): as printed in {PAPER}, selection train-val."


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
    title, network = titles.method_title(variant), titles.part_title(model)
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
    planned: bool
    """Whether the cases are those of a plan."""
    frame: pd.DataFrame
    """All evaluations."""

    @cached_property
    def evaluated(self) -> pd.DataFrame:
        """The cases of runs that have been evaluated."""
        return self.cases[self.cases["domains"].map(len) > 0]

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """The test domains of the table, in the order of the data set.

        Without a plan, where the tested domains are trained on elsewhere, each domain should be
        left out in turn: domains that never were have their column too.
        """
        tested = set(self.cases["test_domain"].dropna())
        ordered = dict.fromkeys(d for domains in self.evaluated["domains"] for d in domains)
        if not self.planned and len(tested) > 1:
            alone = self.evaluated[self.evaluated["test_domain"].notna()]
            pairs = zip(alone["domains"], alone["test_domains"], strict=True)
            trained = {d for domains, tests in pairs for d in domains if d not in tests}
            tested |= trained if tested <= trained else set()
        return (*(d for d in ordered if d in tested), *sorted(tested - ordered.keys()))

    @cached_property
    def rows(self) -> tuple[RowKey, ...]:
        """The rows: methods in the order of tables, and networks by name."""
        pairs = zip(self.cases["variant"], self.cases["model"], strict=True)
        return _in_order({RowKey(*pair) for pair in pairs})

    @property
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

    def has(self, key: RowKey) -> bool:
        """Whether a row has runs, or should have."""
        return not self.part(key, self.cases).empty

    def accuracies(self, key: RowKey) -> dict[tuple[str, int], float]:
        """Accuracies in per cent, by test domain and trial."""
        own = self.part(key, self.chosen)
        columns = zip(own["test_domain"], own["trial"], own["accuracy"], strict=True)
        return {(domain, trial): 100 * accuracy for domain, trial, accuracy in columns}

    def by_domain(self, key: RowKey) -> dict[str, tuple[float, ...]]:
        """The accuracies of the trials in per cent, by test domain."""
        known = self.accuracies(key)
        return {
            domain: tuple(value for (d, _), value in sorted(known.items()) if d == domain)
            for domain in self.domains
        }

    def by_trial(self, key: RowKey) -> tuple[float, ...]:
        """The averages over test domains in per cent, of the trials that have every domain."""
        known = self.accuracies(key)
        rows = (
            [known.get((domain, trial)) for domain in self.domains]
            for trial in sorted({trial for _, trial in known})
        )
        return tuple(fmean(v for v in row if v is not None) for row in rows if None not in row)

    def average(self, key: RowKey) -> float | None:
        """The average over test domains in per cent; None where one has no run."""
        trials = self.by_domain(key).values()
        return fmean(map(fmean, trials)) if trials and all(trials) else None


def select(
    frame: pd.DataFrame, rule: str | Rule = "train-val", plan: Iterable[RunConfig] = ()
) -> dict[str, Selected]:
    """What a rule chooses on every data set, by its name, in the order of tables.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
        rule: how runs and steps are chosen.
        plan: the runs there should be; other runs do not count.
    """
    rule, plan = find_rule(rule), tuple(plan)
    table = cases(frame, plan)
    if plan:
        table = table[table["run"].isin({config.id for config in plan})]
    chosen = choose_among(table, frame, rule)
    return {
        data: Selected(
            data,
            rule,
            table[table["data"] == data],
            chosen[chosen["data"] == data],
            bool(plan),
            frame,
        )
        for data in titles.in_order(set(table["data"]), titles.DATA)
    }


def tables_of(
    paths: str | Path | Sequence[str | Path], rule: str | Rule = "train-val", costs: bool = False
) -> list[Table]:
    """The tables of the runs in some folders: one for each data set, then one over all.

    This is what ``riskmatch sweep table`` prints. Damaged runs are left out with a warning.

    Args:
        paths: as for :func:`riskmatch.results`.
        rule: how runs and steps are chosen.
        costs: seconds, memory and accuracy by method, in place of accuracy by test domain.
    """
    paths = [paths] if isinstance(paths, str | Path) else paths
    found = read_results([Path(path) for path in paths], begun=False)
    for message in found.damaged:
        warnings.warn(message, stacklevel=2)
    return tables_of_frame(found.frame, rule, costs, found.plan)


def tables_of_frame(
    frame: pd.DataFrame,
    rule: str | Rule = "train-val",
    costs: bool = False,
    plan: Iterable[RunConfig] = (),
) -> list[Table]:
    """As :func:`tables_of`, for a data frame of :func:`riskmatch.results`.

    The table over all data sets leaves out runs with other data options than most.
    """
    selected = select(frame, rule, plan)
    if costs:
        return [efficiency_table(one) for one in selected.values()]
    tables = [per_domain_table(one) for one in selected.values()]
    usual = [one for one in selected.values() if one.data in set(one.cases["own_data"])]
    return [*tables, overview_table(usual)] if len(usual) > 1 else tables


def per_domain_table(selected: Selected) -> Table:
    """Accuracy by test domain on one data set: a row per method, the paper's below ours."""
    published = PER_DOMAIN.get(selected.data, {})
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for key in selected.rows:
        cells = [Trials(values) if values else None for values in selected.by_domain(key).values()]
        row = (selected.label(*key), *cells, selected.average(key), gain_over_erm([selected], key))
        rows.setdefault(key.variant, []).append(row)
    for method, printed in published.items():
        theirs = _printed(printed, selected.domains, published)
        rows.setdefault(method, []).append((_theirs(method), *theirs))
    title = titles.data_title(selected.data)
    caption = f"{title}: accuracy on the test domain in per cent, {_ERROR}. {notes(selected)}"
    return _table(caption, selected.domains, rows, bool(published))


def overview_table(sets: Sequence[Selected]) -> Table:
    """The paper's Table 2: accuracy averaged over test domains by method and data set."""
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    keys = rows_over(sets)
    for key in keys:
        trials = [one.by_trial(key) for one in sets]
        cells = [Trials(values) if values else None for values in trials]
        average = fmean(map(fmean, trials)) if all(trials) else None
        row = (row_label(*key), *cells, average, gain_over_erm(sets, key))
        rows.setdefault(key.variant, []).append(row)
    columns = [one.data for one in sets]
    printed = set(columns) & TABLE2["erm"].columns.keys()
    for method, theirs in TABLE2.items() if printed else ():
        rows.setdefault(method, []).append((_theirs(method), *_printed(theirs, columns, TABLE2)))
    caption = " ".join(
        [
            f"Accuracy averaged over test domains in per cent, {_ERROR}.",
            *(f"{_name(one)}: {notes(one)}" for one in sets),
            *_without_runs(sets, keys),
            *([_WRONG] if printed == TABLE2["erm"].columns.keys() else []),
        ]
    )
    return _table(caption, [titles.data_title(data) for data in columns], rows, bool(printed))


def efficiency_table(selected: Selected) -> Table:
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours."""
    rows: dict[str, list[tuple[Cell, ...]]] = {}
    for key in selected.rows:
        rows.setdefault(key.variant, []).append((selected.label(*key), *_costs(selected, key)))
    published = EFFICIENCY.get(selected.data, {})
    for method, cost in published.items():
        row = (_theirs(method), cost.seconds, Amount(cost.memory, 2), cost.accuracy)
        rows.setdefault(method, []).append(row)
    caption = (
        f"{titles.data_title(selected.data)}: training time and peak memory of the training steps, "
        "without evaluations, each the median over runs; accuracy averaged over test domains in "
        f"per cent. {notes(selected)}"
    )
    if published:
        caption += f" (paper): as printed in {PAPER}, on other machines."
    order = titles.in_order(set(rows), titles.METHODS)
    return Table(
        caption,
        ("method", "training (s)", "memory (GiB)", "accuracy"),
        tuple(row for method in order for row in rows[method]),
    )


def _costs(selected: Selected, key: RowKey) -> tuple[Cell, ...]:
    """Median time and memory of finished runs, but for those with two test domains.

    These serve ``leave-one-out`` and train on fewer domains.
    """
    own = selected.part(key, selected.evaluated)
    own = own[own["test_domain"].notna() & (own["status"] == "done")]
    evaluations = selected.frame[selected.frame["run"].isin(own["run"])]
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


def gain_over_erm(sets: Sequence[Selected], key: RowKey) -> Gain | None:
    """The gain over ERM with the same network, paired over everything both were tested on."""
    if key.variant == "erm":
        return None
    return paired(_everywhere(sets, key), _everywhere(sets, RowKey("erm", key.model)))


def _everywhere(sets: Sequence[Selected], key: RowKey) -> dict[Hashable, float]:
    return {(one.data, *at): value for one in sets for at, value in one.accuracies(key).items()}


def rows_over(sets: Sequence[Selected]) -> tuple[RowKey, ...]:
    """The rows of a table over data sets; networks count where a data set has several."""
    keys = {key for one in sets for key in one.rows}
    if all(len(one.models) <= 1 for one in sets):
        keys = {RowKey(key.variant, "") for key in keys}
    return _in_order(keys)


def _in_order(keys: set[RowKey]) -> tuple[RowKey, ...]:
    methods = titles.in_order({key.variant for key in keys}, titles.METHODS)
    return tuple(sorted(keys, key=lambda key: (methods.index(key.variant), key.model)))


def _name(selected: Selected) -> str:
    """The data set, with its test domains where the paper has more."""
    title = titles.data_title(selected.data)
    published = PER_DOMAIN[selected.data]["erm"].columns if selected.data in PER_DOMAIN else {}
    some = selected.domains and set(selected.domains) < set(published)
    return f"{title} ({', '.join(selected.domains)} alone)" if some else title


def _without_runs(sets: Sequence[Selected], keys: Sequence[RowKey]) -> list[str]:
    absent = [
        f"{row_label(*key)} on {_name(one)}" for key in keys for one in sets if not one.has(key)
    ]
    return [f"No runs: {'; '.join(absent)}."] if absent else []


_WRONG = "The paper's averages of {} are as printed; their columns give {}.".format(
    " and ".join(titles.METHODS[method] for method in WRONG_AVERAGES),
    " and ".join(map(str, WRONG_AVERAGES.values())),
)


def _printed(
    row: PublishedRow, columns: Sequence[str], table: Mapping[str, PublishedRow]
) -> list[Cell]:
    """A row of a published table; its average belongs to all columns of that table."""
    whole = set(table["erm"].columns) == set(columns)
    return [*map(row.columns.get, columns), row.average if whole else None, None]


def _theirs(method: str) -> str:
    return f"{titles.METHODS[method]} (paper)"


def _table(
    caption: str,
    columns: Sequence[str],
    rows: dict[str, list[tuple[Cell, ...]]],
    published: bool,
) -> Table:
    """The table, with the gain over ERM as its last column where there is any."""
    order = titles.in_order(set(rows), titles.METHODS)
    ordered = [row for method in order for row in rows[method]]
    gains = any(row[-1] is not None for row in ordered)
    header = ("method", *columns, "average", *([GAIN] if gains else []))
    caption = " ".join([caption, *([_GAIN_NOTE] * gains), *([_PAPER_NOTE] * published)])
    return Table(caption, header, tuple(row[: len(header)] for row in ordered))
