"""Tables of runs beside the paper's numbers: by test domain, over data sets, and of costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, TypeVar

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
from riskmatch.report.tables import Amount, Cell, Gain, Table, Trials
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import read_results
from riskmatch.selection import Rule, cases, choose_among, find_rule

GAIN = "gain over ERM"
"""Title of the column of paired differences from ERM."""
_ERROR = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"
_GAIN_NOTE = (
    "Gain over ERM: mean difference, paired over test domains and trials, ± half of its 95 % "
    "t-interval."
)
_PAPER_NOTE = f"(paper): as printed in {PAPER}, selection train-val."


_Row = TypeVar("_Row")
Rows = list[tuple[str, tuple[Cell, ...]]]
"""Rows of a table, each with its method, by which tables are ordered."""


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
        return _in_order((pair[0], RowKey(*pair)) for pair in sorted(set(pairs)))

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
    found = read_results(paths, begun=False)
    found.warn()
    return tables_of_frame(found.frame, rule, costs, found.plan)


def tables_of_frame(
    frame: pd.DataFrame,
    rule: str | Rule = "train-val",
    costs: bool = False,
    plan: Iterable[RunConfig] = (),
) -> list[Table]:
    """As :func:`tables_of`, for a data frame of :func:`riskmatch.results`.

    The table over all data sets leaves out runs with other data options than most.

    Raises:
        ValueError: the rule needs runs with two test domains, and there are none.
    """
    selected, rule = select(frame, rule, plan), find_rule(rule)
    pairs = any((one.cases["test_domains"].map(len) > 1).any() for one in selected.values())
    if rule.domains == "left-out" and not pairs:
        raise ValueError(
            f"The rule {rule.name} needs runs that hold out two domains, and there are none. Plan "
            "them with riskmatch sweep plan --leave-two-out."
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
    caption = f"{title}: accuracy on the test domain in per cent, {_ERROR}. {notes(selected)}"
    printed = _printed(PER_DOMAIN.get(selected.data, {}), selected.domains)
    return _accuracy_table(caption, selected.domains, rows, printed)


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
    """Seconds, memory and accuracy on one data set: a row per method, the paper's below ours."""
    rows: Rows = [
        (key.variant, (selected.label(*key), *_costs(selected, key))) for key in selected.rows
    ]
    published = EFFICIENCY.get(selected.data, {})
    for method, cost in published.items():
        row = (_theirs(method), cost.seconds, Amount(cost.memory, 2), cost.accuracy)
        rows.append((method, row))
    caption = (
        f"{titles.data_title(selected.data)}: training time and peak memory of the training steps, "
        "without evaluations, each the median over runs; accuracy averaged over test domains in "
        f"per cent. {notes(selected)}"
    )
    if published:
        caption += f" (paper): as printed in {PAPER}, on other machines."
    return Table(caption, ("method", "training (s)", "memory (GiB)", "accuracy"), _in_order(rows))


def _costs(selected: Selected, key: RowKey) -> tuple[Cell, ...]:
    """Median time and memory of finished runs, but for those with two test domains.

    These serve ``leave-one-out`` and train on fewer domains.
    """
    own = selected.part(key, selected.alone)
    done = own.loc[own["status"] == "done", "run"]
    evaluations = selected.frame[selected.frame["run"].isin(done)]
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
    return _in_order((key.variant, key) for key in sorted(keys))


def _in_order(rows: Iterable[tuple[str, _Row]]) -> tuple[_Row, ...]:
    """Rows, each with its method, in the order of methods; the rows of one stay in theirs."""
    rows = list(rows)
    order = titles.in_order({method for method, _ in rows}, titles.METHODS)
    return tuple(row for _, row in sorted(rows, key=lambda row: order.index(row[0])))


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
    return Table(caption, header, tuple(row[: len(header)] for row in _in_order(rows + printed)))
