"""Accuracy on the test domains: by run or method under each selection rule, and by domain."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pandas as pd

from riskmatch.report.comparison import (
    GAIN,
    RowKey,
    Selected,
    gain_over_erm,
    row_label,
    rows_over,
)
from riskmatch.report.coverage import draws
from riskmatch.report.naming import run_titles
from riskmatch.report.page.selections import TEST_DOMAIN, DataSelection, PageRuns
from riskmatch.report.stored_runs import StoredRun
from riskmatch.report.tables import Gain, Spread
from riskmatch.report.titles import data_title
from riskmatch.selection import Rule, choose_among

MAX_RUNS = 6
"""Most runs that are listed one by one; more are averaged by method."""
_CAPTION = "Accuracy on the test domain in per cent, at the step chosen by each selection rule"
_COLORED_MNIST = f"ColoredMNIST: at {TEST_DOMAIN}, mean ± standard deviation over seeds."
Rows = list[list[str | float | None]]


def headline(page: PageRuns, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Accuracy under every rule: by run where ``runs`` are all runs, else by method."""
    return by_run(page, runs) if len(runs) == len(page.runs) else by_method(page)


def by_run(page: PageRuns, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """One row per run and test domain; each rule chooses among the steps of the run."""
    rules = page.rules
    rule_names = [rule.name for rule in rules]
    configs = [run.config for run in runs]
    titles = {c.id: title for c, title in zip(configs, run_titles(configs), strict=True)}
    chosen: dict[tuple[str, str], dict[str, Any]] = {}
    for one in page.by_data:
        for rule, selected in one.by_rule.items():
            for choice in _choices_by_run(selected).to_dict("records"):
                chosen.setdefault((choice["run"], choice["test_domain"]), {})[rule] = choice
    table = page.cases[page.cases["test_domain"].notna() & page.cases["run"].isin(titles)]
    main = {one.data: one.main.rule.name for one in page.by_data}
    settings = ["data", "model", "test_domain", "trial"]
    erm = {
        tuple(case[name] for name in settings): chosen.get((case["run"], case["test_domain"]), {})
        for case in table[table["method"] == "erm"].to_dict("records")
    }
    rows: Rows = []
    for case in table.to_dict("records"):
        choices = chosen.get((case["run"], case["test_domain"]), {})
        own = choices.get(main[case["data"]])
        base = erm.get(tuple(case[name] for name in settings), {}).get(main[case["data"]])
        gain = None
        if case["method"] != "erm" and own and base:
            gain = _percent(own["accuracy"] - base["accuracy"])
        chosen_by = map(choices.get, rule_names)
        cells = [_percent(choice["accuracy"]) if choice else None for choice in chosen_by]
        step = int(own["step"]) if own else None
        rows.append([titles[case["run"]], case["test_domain"], *cells, step, gain])
    columns = ["run", "test domain", *rule_names, f"step of {_main_rules(page)}", GAIN]
    caption = f"{_CAPTION}. {_explained(rules)}"
    return _table(caption, columns, rows, f"in the same trial, {_main_rules(page)}")


def _choices_by_run(selected: Selected) -> pd.DataFrame:
    """Choices of a rule among the steps of each single run."""
    table = selected.cases
    partners = table[table["test_domain"].isna()]  # serve leave-one-out
    parts = [
        choose_among(pd.concat([own, partners]), selected.frame, selected.rule)
        for _, own in table[table["test_domain"].notna()].groupby("run")
    ]
    return pd.concat(parts) if parts else selected.chosen


def by_method(page: PageRuns) -> dict[str, Any]:
    """One row per method; each rule chooses among the runs of a trial and their steps."""
    rules = page.rules
    several = len(page.compared) > 1
    rows: Rows = []
    for one in page.by_data:
        title = data_title(one.data)
        for key in one.main.rows:
            label, gain = one.main.label(*key), gain_over_erm([one.compared], key)
            cells = [one.accuracy(rule.name, key) for rule in rules]
            rows.append(
                [
                    label if one.is_default or several else f"{label} on {title}",
                    *([title] if several else []),
                    *(None if cell is None else str(cell) for cell in cells),
                    _lowest(one, key),
                    None if gain is None else str(gain),
                ]
            )
    columns = [
        "method",
        *(["data set"] if several else []),
        *(rule.name for rule in rules),
        "lowest test domain",
        GAIN,
    ]
    colored = [one.is_colored_mnist for one in page.by_data]
    caption = [f"{_CAPTION}."]
    if not all(colored):
        caption.append(
            "Averages over test domains: mean ± standard error over trials; they need a run for "
            "every test domain."
        )
    if any(colored):
        caption.append(_COLORED_MNIST)
    caption.append(_explained(rules))
    return _table(
        " ".join(caption),
        columns,
        rows,
        f"paired over test domains and trials, {_main_rules(page)}, ± half of the 95 % t-interval",
    )


def comparison(page: PageRuns) -> dict[str, Any]:
    """Accuracy by method under the main rule: by test domain, or by data set if there are several.

    Mean ± standard error over trials, and the gains over ERM with 95 % intervals.
    """
    sets = page.compared
    single = sets[0] if len(sets) == 1 else None
    columns = list(single.main.domains) if single else [data_title(one.data) for one in sets]
    rows: Rows = []
    differences = []
    for key in rows_over([one.main for one in sets]):
        label = row_label(*key)
        cells: list[Spread | None]
        if single:
            by_domain = single.main.by_domain(key).values()
            cells = [single.spread(values) for values in by_domain]
        else:
            cells = [one.accuracy(one.main.rule.name, key) for one in sets]
        means = [cell.mean for cell in cells if cell is not None and cell.mean is not None]
        average = round(fmean(means), 2) if cells and len(means) == len(cells) else None
        rows.append([label, *(None if cell is None else str(cell) for cell in cells), average])
        gain = gain_over_erm([one.compared for one in sets], key)
        if gain is not None:
            differences.append(_interval(label, row_label("erm", key.model), gain))
    counts = " ".join(f"{data_title(one.data)}: {draws(one.main)}." for one in sets)
    spread = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"
    if all(one.is_colored_mnist for one in sets):
        spread = "mean ± standard deviation over seeds"
    rule = {one.main.rule.name: one.main.rule for one in sets}
    return {
        "caption": f"Accuracy on test domains in per cent: {spread}, at the run and step chosen by "
        f"{_explained(list(rule.values()))} {counts}",
        "columns": ["method", *columns, "average"],
        "rows": rows,
        "differences": differences,
    }


def _interval(method: str, against: str, gain: Gain) -> dict[str, Any]:
    mean, half = gain.mean or 0.0, gain.error
    return {
        "method": method,
        "against": against,
        "mean": mean,
        "low": None if half is None else mean - half,
        "high": None if half is None else mean + half,
        "pairs": len(gain.values),
    }


def _table(caption: str, columns: list[str], rows: Rows, gain: str) -> dict[str, Any]:
    """Table without its last column where no row has a gain over ERM."""
    if any(row[-1] is not None for row in rows):
        return {
            "caption": f"{caption} {GAIN[0].upper()}{GAIN[1:]}: difference {gain}.",
            "columns": columns,
            "rows": rows,
        }
    return {"caption": caption, "columns": columns[:-1], "rows": [row[:-1] for row in rows]}


def _lowest(one: DataSelection, key: RowKey) -> str | None:
    """Lowest accuracy over test domains; on ColoredMNIST the mean over seeds of the lowest."""
    by_domain = one.main.by_domain(key)
    means = {domain: fmean(values) for domain, values in by_domain.items() if values}
    if not means:
        return None
    domain = min(means, key=lambda name: means[name])
    if one.is_colored_mnist and len({len(values) for values in by_domain.values()}) == 1:
        lowest = one.spread(tuple(map(min, zip(*by_domain.values(), strict=True))))
        return f"{lowest} ({domain})"
    return f"{means[domain]:.1f} ({domain})"


def _main_rules(page: PageRuns) -> str:
    return " or ".join(dict.fromkeys(one.main.rule.name for one in page.by_data))


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _explained(rules: Sequence[Rule]) -> str:
    return " ".join(f"{rule.name}: highest {rule.summary.removeprefix('the ')}." for rule in rules)
