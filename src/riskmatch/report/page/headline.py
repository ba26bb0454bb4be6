"""Accuracy on the test domains: by run or method under each selection rule, and by domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from riskmatch.report.comparison import against_erm
from riskmatch.report.coverage import draws
from riskmatch.report.difference import Difference
from riskmatch.report.naming import data_title, run_titles
from riskmatch.report.page.cases import Cases
from riskmatch.report.page.runs import StoredRun
from riskmatch.report.selected import RowKey, Selected, row_label, rows_over
from riskmatch.report.tables import Trials
from riskmatch.runs.records import RunRecord
from riskmatch.selection import EXPLAINED, Choice, case_of, choose
from riskmatch.selection import RECORD_RULES as RULES
from riskmatch.selection import RuleName as Rule

MAX_RUNS = 6
"""Most runs that are listed one by one; more are averaged by method."""
_DIFFERENCE = "− ERM"
_CAPTION = "Accuracy on the test domain in per cent, at the step chosen by each selection rule"
Rows = list[list[str | float | None]]


def headline(cases: Cases, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Accuracy under every rule: by run where there are few, else by method."""
    return by_run(cases, runs) if len(runs) <= MAX_RUNS else by_method(cases)


def by_run(cases: Cases, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """One row per run and test domain; each rule chooses among the steps of the run."""
    pairs = [record for record in cases.records if len(record.config.test_domains) > 1]
    members: list[tuple[str, RunRecord, dict[Rule, Choice]]] = []
    for run, title in zip(runs, run_titles([run.config for run in runs]), strict=True):
        for record in cases.of_run(run):
            if len(record.config.test_domains) == 1:
                members.append((title, record, _choices([record, *pairs])))
    rules = [rule for rule in RULES if any(rule in choices for _, _, choices in members)]
    erm = {
        _setting(record): choices["train-val"]
        for _, record, choices in members
        if record.config.method == "erm" and "train-val" in choices
    }
    rows: Rows = []
    for title, record, choices in members:
        chosen, base = choices.get("train-val"), erm.get(_setting(record))
        difference = None
        if record.config.method != "erm" and chosen and base:
            difference = _percent(chosen.accuracy - base.accuracy)
        rows.append(
            [
                title,
                record.config.test_domains[0],
                *(_percent(choices[rule].accuracy) if rule in choices else None for rule in rules),
                chosen.evaluation.step if chosen else None,
                difference,
            ]
        )
    columns = ["run", "test domain", *rules, "step of train-val", _DIFFERENCE]
    caption = f"{_CAPTION}. {_explained(rules)}"
    return _table(caption, columns, rows, "of the same trial, under train-val")


def by_method(cases: Cases) -> dict[str, Any]:
    """One row per method; each rule chooses among the runs of a trial and their steps."""
    main = cases.main_data
    selected = {
        data: {rule: Selected.of(cases.records, data, rule, cases.plan) for rule in RULES}
        for data in cases.data
    }
    rules = [rule for rule in RULES if any(by_rule[rule].choices for by_rule in selected.values())]
    rows: Rows = []
    for data, by_rule in selected.items():
        train_val = by_rule["train-val"]
        for key in train_val.rows:
            label, difference = train_val.label(key), against_erm([train_val], key)
            rows.append(
                [
                    label if data in main or len(main) > 1 else f"{label} on {data}",
                    data_title(data),
                    *(_mean(by_rule[rule].by_trial(key)) for rule in rules),
                    _lowest(train_val, key),
                    None if difference is None else str(difference),
                ]
            )
    columns = ["method", "data set", *rules, "lowest test domain", _DIFFERENCE]
    if len(main) == 1:
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    caption = (
        f"{_CAPTION}, averaged over test domains: mean ± standard error over trials. "
        f"{_explained(rules)} Averages need a run for every test domain."
    )
    return _table(
        caption,
        columns,
        rows,
        "paired over test domains and trials, under train-val, ± half of the 95 % t-interval",
    )


def comparison(cases: Cases) -> dict[str, Any]:
    """Accuracy by method under train-val: by test domain, or by data set where there are several.

    Mean ± standard error over trials, and the paired differences from ERM with 95 % intervals.
    """
    sets = [Selected.of(cases.records, data, "train-val", cases.plan) for data in cases.main_data]
    if len(sets) == 1:
        columns: Sequence[str] = sets[0].domains
    else:
        columns = [data_title(one.data) for one in sets]
    rows: Rows = []
    differences = []
    for key in rows_over(sets):
        label = row_label(key)
        by_domain = list(sets[0].by_domain(key).values())
        values = by_domain if len(sets) == 1 else [one.by_trial(key) for one in sets]
        average = round(fmean(map(fmean, values)), 2) if values and all(values) else None
        rows.append([label, *(str(Trials(v)) if v else None for v in values), average])
        difference = against_erm(sets, key)
        if difference is not None:
            differences.append(_interval(label, row_label(RowKey("erm", key.model)), difference))
    counts = " ".join(f"{data_title(one.data)}: {draws(one)}." for one in sets)
    return {
        "caption": "Accuracy on test domains in per cent: mean ± standard error (standard "
        "deviation / √trials) over trials, at the run and step with the highest "
        f"{EXPLAINED['train-val']}. {counts}",
        "columns": ["method", *columns, "average"],
        "rows": rows,
        "differences": differences,
    }


def _interval(method: str, against: str, difference: Difference) -> dict[str, Any]:
    half = math.nan if difference.half is None else difference.half
    assert difference.mean is not None
    return {
        "method": method,
        "against": against,
        "mean": difference.mean,
        "low": difference.mean - half,
        "high": difference.mean + half,
        "pairs": difference.pairs,
    }


def _table(caption: str, columns: list[str], rows: Rows, difference: str) -> dict[str, Any]:
    """Table without its last column where no row has a difference from ERM."""
    if any(row[-1] is not None for row in rows):
        return {
            "caption": f"{caption} {_DIFFERENCE}: difference from ERM {difference}.",
            "columns": columns,
            "rows": rows,
        }
    return {"caption": caption, "columns": columns[:-1], "rows": [row[:-1] for row in rows]}


def _choices(records: Sequence[RunRecord]) -> dict[Rule, Choice]:
    """First choice of every rule that chooses anything."""
    by_rule = {rule: choose(records, rule) for rule in RULES}
    return {rule: choices[0] for rule, choices in by_rule.items() if choices}


def _setting(record: RunRecord) -> tuple[Any, ...]:
    """Everything that a run shares with the ERM run it is compared with."""
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
    return " ".join(f"{rule}: highest {EXPLAINED[rule]}." for rule in rules)
