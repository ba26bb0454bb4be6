"""The numbers one looks for first: accuracy on the test domain, under each rule of selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riskmatch.report.comparison import against_erm
from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.naming import data_title, titles_of
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.selected import RowKey, Selected
from riskmatch.report.tables import Trials
from riskmatch.runs.records import RunRecord
from riskmatch.selection import EXPLAINED, Choice, case_of, choose
from riskmatch.selection import RECORD_RULES as RULES
from riskmatch.selection import RuleName as Rule

FEW = 6
"""Runs that can be shown one by one, at most."""
_AGAINST = "− ERM"
_WHERE = "Accuracy on the test domain, in per cent, at the step that each rule of selection takes"
Rows = list[list[str | float | None]]


def headline(cases: Cases, runs: Sequence[RunOnFile]) -> dict[str, Any]:
    """By run where there are few, else by method."""
    return by_run(cases, runs) if len(runs) <= FEW else by_method(cases)


def by_run(cases: Cases, runs: Sequence[RunOnFile]) -> dict[str, Any]:
    """A row for every run and test domain; each rule chooses among the steps of the run."""
    pairs = [record for record in cases.records if len(record.config.test_domains) > 1]
    own: list[tuple[str, RunRecord, dict[Rule, Choice]]] = []
    for run, title in zip(runs, titles_of([run.config for run in runs]), strict=True):
        for record in cases.of_run(run):
            if len(record.config.test_domains) == 1:
                own.append((title, record, _choices([record, *pairs])))
    rules = [rule for rule in RULES if any(rule in found for _, _, found in own)]
    erm = {
        _place(record): found["train-val"]
        for _, record, found in own
        if record.config.method == "erm" and "train-val" in found
    }
    rows: Rows = []
    for title, record, found in own:
        chosen, base = found.get("train-val"), erm.get(_place(record))
        difference = None
        if record.config.method != "erm" and chosen and base:
            difference = _percent(chosen.accuracy - base.accuracy)
        rows.append(
            [
                title,
                record.config.test_domains[0],
                *(_percent(found[rule].accuracy) if rule in found else None for rule in rules),
                chosen.evaluation.step if chosen else None,
                difference,
            ]
        )
    columns = ["run", "test domain", *rules, "step of train-val", _AGAINST]
    caption = f"{_WHERE}. {_explained(rules)}"
    return _table(caption, columns, rows, "of the same trial, under train-val")


def by_method(cases: Cases) -> dict[str, Any]:
    """A row for every method; each rule chooses among the runs of a trial and their steps."""
    main = cases.main_data
    chosen = {
        data: {rule: Selected.of(cases.records, data, rule, cases.plan) for rule in RULES}
        for data in cases.data
    }
    rules = [rule for rule in RULES if any(found[rule].choices for found in chosen.values())]
    rows: Rows = []
    for data, found in chosen.items():
        usual = found["train-val"]
        for key in usual.rows:
            label, difference = usual.label(key), against_erm([usual], key)
            rows.append(
                [
                    label if data in main or len(main) > 1 else f"{label} on {data}",
                    data_title(data),
                    *(_mean(found[rule].by_trial(key)) for rule in rules),
                    _lowest(usual, key),
                    None if difference is None else str(difference),
                ]
            )
    columns = ["method", "data set", *rules, "lowest test domain", _AGAINST]
    if len(main) == 1:
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    caption = (
        f"{_WHERE}, averaged over test domains: mean ± standard error over trials. "
        f"{_explained(rules)} An average needs every test domain."
    )
    return _table(
        caption,
        columns,
        rows,
        "paired over test domains and trials, under train-val, ± half of the 95 % t-interval",
    )


def _table(caption: str, columns: list[str], rows: Rows, against: str) -> dict[str, Any]:
    """Without the last column where nothing is compared with ERM."""
    if any(row[-1] is not None for row in rows):
        return {
            "caption": f"{caption} {_AGAINST}: the difference from ERM {against}.",
            "columns": columns,
            "rows": rows,
        }
    return {"caption": caption, "columns": columns[:-1], "rows": [row[:-1] for row in rows]}


def _choices(records: Sequence[RunRecord]) -> dict[Rule, Choice]:
    """What each rule chooses, where it chooses anything."""
    found = {rule: choose(records, rule) for rule in RULES}
    return {rule: choices[0] for rule, choices in found.items() if choices}


def _place(record: RunRecord) -> tuple[Any, ...]:
    """What a run shares with the ERM run it is compared with."""
    case = case_of(record.config)
    return case.data, case.model, case.domain, case.trial


def _lowest(selected: Selected, key: RowKey) -> str | None:
    means = {d: Trials(values).mean for d, values in selected.by_domain(key).items()}
    known = {domain: mean for domain, mean in means.items() if mean is not None}
    if not known:
        return None
    domain = min(known, key=lambda name: known[name])
    return f"{known[domain]:.1f} ({domain})"


def _mean(values: tuple[float, ...]) -> str | None:
    return str(Trials(values)) if values else None


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _explained(rules: Sequence[Rule]) -> str:
    return " ".join(f"{rule}: the best of {EXPLAINED[rule]}." for rule in rules)
