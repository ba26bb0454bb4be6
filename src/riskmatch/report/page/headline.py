"""Accuracy on the test domains: by run or method under each selection rule, and by domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from riskmatch.report.comparison import GAIN
from riskmatch.report.coverage import draws
from riskmatch.report.naming import run_titles
from riskmatch.report.page.selections import TEST_DOMAIN, DataSelection, PageRuns
from riskmatch.report.selected import RowKey, choices_by_run, gain_over_erm, row_label, rows_over
from riskmatch.report.tables import DECIMALS, Gain, Spread, one_decimal
from riskmatch.report.titles import data_title, part_titles
from riskmatch.runs.records import StoredRun
from riskmatch.selection import Rule

MAX_RUNS = 6
"""Most runs that are listed one by one; more are averaged by method."""
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
            for choice in choices_by_run(selected).to_dict("records"):
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
            gain = _rounded(100 * own["accuracy"] - 100 * base["accuracy"])
        chosen_by = map(choices.get, rule_names)
        cells = [_rounded(100 * choice["accuracy"]) if choice else None for choice in chosen_by]
        step = int(own["step"]) if own else None
        rows.append([titles[case["run"]], case["test_domain"], *cells, step, gain])
    columns = ["run", "test domain", *rule_names, f"step of {_main_rules(page)}", GAIN]
    caption = f"{_caption(page)}. {_explained(rules)}"
    return _table(caption, columns, rows, f"in the same trial, {_main_rules(page)}")


def by_method(page: PageRuns) -> dict[str, Any]:
    """One row per method; each rule chooses among the runs of a trial and their steps."""
    rules = page.rules
    several = len(page.compared) > 1
    rows: Rows = []
    for one in page.by_data:
        title = data_title(one.data)
        for key in one.main.rows:
            label = one.main.label(*key)
            rows.append(
                [
                    label if one.is_default or several else f"{label} on {title}",
                    *([title] if several else []),
                    *(_text(one.accuracy(rule.name, key)) for rule in rules),
                    _lowest(one, key),
                    _text(gain_over_erm([one.compared], key)),
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
    caption = [f"{_caption(page)}."]
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
        average = fmean(means) if cells and len(means) == len(cells) else None
        if single:
            average = single.main.average(key)
        rows.append([label, *map(_text, cells), None if average is None else _rounded(average)])
        gain = gain_over_erm([one.compared for one in sets], key)
        if gain is not None:
            differences.append(_interval(label, row_label("erm", key.model), gain))
    counts = " ".join(f"{data_title(one.data)}: {draws(one.main)}." for one in sets)
    spread = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"
    if all(one.is_colored_mnist for one in sets):
        spread = "mean ± standard deviation over seeds"
    rule = {one.main.rule.name: one.main.rule for one in sets}
    return {
        "caption": f"{_caption(page)}: {spread}. {_explained(list(rule.values()))} {counts}",
        "columns": ["method", *columns, "average"],
        "rows": rows,
        "differences": differences,
    }


def verdict(page: PageRuns) -> dict[str, str] | None:
    """Whether a method is better than ERM, what accuracy to expect, and the rule that decides.

    None where no method has a run on every test domain.
    """
    sets = [one.compared for one in page.compared]
    keys = rows_over(sets)
    gains = {key: gain for key in keys if (gain := gain_over_erm(sets, key)) is not None}
    known = {key: gain for key, gain in gains.items() if gain.error is not None}
    better = [key for key, gain in known.items() if (gain.mean or 0.0) > (gain.error or 0.0)]
    worse = [key for key, gain in known.items() if -(gain.mean or 0.0) > (gain.error or 0.0)]
    candidates = better or [key for key in keys if key.variant == "erm"] or list(keys)
    levels = {key: _levels(sets, key) for key in candidates}
    levels = {key: values for key, values in levels.items() if values}
    if not levels:
        return None
    best = max(levels, key=lambda key: fmean(levels[key].values()))
    if better:
        its = "its" if len(better) == 1 else "their"
        text = f"Better than ERM beyond {its} interval: {_with_gains(better, gains)}"
    elif known:
        text = "No method is better than ERM beyond its interval"
    elif gains:
        text = "One pair per method gives no interval, so no method is called better than ERM"
    else:
        text = f"Nothing is compared with ERM: {row_label(*best)} has the highest average"
    worse_too = f"; worse: {_with_gains(worse, gains)}" if worse else ""
    only_erm = row_label(*best) == "ERM" and len(levels) == 1
    expect = "Expect" if only_erm else f"With {row_label(*best)}, expect"
    oracle = any(one.main.rule.domains == "test" for one in page.compared)
    return {
        "text": f"{text}{worse_too}. {expect} {_expected(levels[best])}.",
        "rule": "Rule: a method is better or worse than ERM where the 95 % t-interval of its "
        "paired gains excludes zero; intervals are not corrected for the number of methods. The "
        "expected accuracy is the range over test domains, each the mean over trials, by "
        f"{_main_rules(page)}, of the best such method, else of ERM."
        + (" It is optimistic: the choice uses the test domain itself." if oracle else ""),
    }


def _levels(sets: Sequence[Any], key: RowKey) -> dict[tuple[str, str], float]:
    """Mean accuracy of a row by data set and test domain."""
    return {
        (one.data, domain): fmean(values)
        for one in sets
        for domain, values in one.by_domain(key).items()
        if values
    }


def _expected(levels: dict[tuple[str, str], float]) -> str:
    low, high = round(min(levels.values())), round(max(levels.values()))
    if len(levels) == 1:
        ((_, domain),) = levels
        return f"about {low} % on {domain}; one test domain says little of others"
    span = f"{low} %" if low == high else f"{low}–{high} %"
    return f"{span} over {len(levels)} test domains"


def _with_gains(keys: Sequence[RowKey], gains: Mapping[RowKey, Gain]) -> str:
    labels = [f"{row_label(*key)} ({gains[key]})" for key in keys]
    return ("; " if any("," in label for label in labels) else ", ").join(labels)


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
    return f"{one_decimal(means[domain])} ({domain})"


def _main_rules(page: PageRuns) -> str:
    return " or ".join(dict.fromkeys(one.main.rule.name for one in page.by_data))


def _rounded(percentage: float) -> float:
    """The number that tables print."""
    return round(round(percentage, DECIMALS), 1)


def _text(cell: Spread | None) -> str | None:
    return None if cell is None else str(cell)


def _caption(page: PageRuns) -> str:
    """What the numbers are, with the name of the part of the test domain that is reported."""
    names = (one.main.cases["own_data"].iloc[0] for one in page.by_data)
    parts = dict.fromkeys(part_titles(name)["train"] for name in names)
    return (
        f"Accuracy in per cent on the {' or '.join(parts)} of the test domain, at the step chosen "
        "by each selection rule"
    )


def _explained(rules: Sequence[Rule]) -> str:
    return " ".join(f"{rule.name}: highest {rule.summary.removeprefix('the ')}." for rule in rules)
