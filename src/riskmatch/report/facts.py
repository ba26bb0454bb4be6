"""Facts about tables and reports: the rule, draws and trials, and what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, starmap
from typing import NamedTuple

import pandas as pd

from riskmatch.report.selected import PageRuns, RowKey, Selected
from riskmatch.report.tables import capitalised
from riskmatch.report.titles import data_title, domains_title
from riskmatch.selection import CASE, Rule, acts

Facts = dict[str, str]
"""Values by label, in the order in which they are shown; empty values are left out."""
ALIKE = {"steps": "steps", "model_options": "model options"}
"""Settings that no search draws, so that the runs of a case should have them in common."""
SETTINGS = {
    **{"batch_size": "batch size", "lr": "learning rate", "weight_decay": "weight decay"},
    **{name: name for name in ("dropout", "steps", "schedule", "clip", "amp")},
}
"""Settings of a run besides the method; searches draw the first four for each method."""
UNEQUAL = "pairs with ERM differ in more than the method"
FEW = 3
"""Runs that are missing in more test domains of a row are counted together."""


def lines(facts: Mapping[str, str]) -> list[str]:
    """The text of facts, one line each.

    Example:
        >>> lines({"missing": "ERM on photo 2 of 5 runs", "network": ""})
        ['Missing: ERM on photo 2 of 5 runs.']
    """
    return [
        f"{capitalised(label)}: {value.rstrip('.')}." for label, value in facts.items() if value
    ]


def summary_of(rule: Rule) -> str:
    """What a rule maximises."""
    after = ", among the steps at which the method acts" * rule.after_warmup
    return f"highest {rule.summary.removeprefix('the ')}{after}"


def selection_facts(selected: Selected) -> Facts:
    """How the numbers of a table were chosen, and what they lack."""
    trials = [{len(v) for v in selected.by_domain(key).values()} for key in selected.rows]
    ragged = any(len(numbers - {0}) > 1 for numbers in trials)
    return {
        "selection": f"{selected.rule.name}, {summary_of(selected.rule)}",
        **draws(selected),
        **activity(selected),
        "averages": "over the trials that have every test domain" if ragged else "",
        "network": _joined(selected.models),
        "chosen among runs that differ in more than their draw": _unlike(selected),
        UNEQUAL: unequal(selected),
        "missing": missing(selected),
        "no eligible run": _unchosen(selected),
        "unfinished, counted with the steps they have": _counts(
            selected, selected.evaluated, selected.evaluated["status"] != "done"
        ),
    }


def page_facts(page: PageRuns, shown: int) -> Facts:
    """How the runs of a report were read, and which are missing.

    Args:
        page: runs of the report.
        shown: number of runs shown in detail.
    """
    runs, table, plan = page.runs, page.cases, page.results.plan
    number = len(runs)
    whole = table["test_domains"].map(len) == 0
    tested = table[~whole]
    cases = tested["test_domain"].notna().groupby(tested["data"], sort=False).any()
    rules = " or ".join(dict.fromkeys(one.main.rule.name for one in page.by_data))
    unfinished = int((runs["status"] != "done").sum())
    absent = len({config.id for config in plan} - set(runs["run"]))
    facts = {
        "shown in detail": f"{shown} of {number} runs, chosen by {rules}: one for each test domain "
        "of the method with the highest average, the lowest first, then of ERM and others. For "
        "another run, give its folder"
        if shown < number
        else "",
        "trials": "runs that differ only in their seeds"
        if (table["trial"] != table["own_trial"]).any()
        else "",
        "methods are not compared on": "; ".join(
            f"{data_title(one.data)} (few runs)" for one in page.by_data if not one.is_default
        ),
        "trained on all domains, without a test domain": f"{whole.sum()} of {number} runs"
        if whole.any()
        else "",
        "not compared, as runs with several test domains train on different domains": "; ".join(
            data_title(str(data)) for data in cases.index[~cases]
        ),
        "unfinished, counted with their evaluations so far": f"{unfinished} of {number} runs"
        if unfinished
        else "",
    }
    for one in page.by_data:
        about = (
            activity(one.main) if number > 1 else {}
        )  # the findings of a single run say the rest
        if number == 1 and not one.main.chosen["acts"].all():
            about = {"chosen before the method acts": "the chosen step belongs to the warm-up"}
        if one.is_default:
            about |= {UNEQUAL: unequal(one.main), "missing": missing(one.main) if absent else ""}
        several = f"{data_title(one.data)}, " if len(page.by_data) > 1 else ""
        facts |= {f"{several}{label}": value for label, value in about.items()}
    if absent:
        facts["planned runs that are missing"] = f"{absent} of {len(plan)}"
    return facts


def draws(selected: Selected) -> Facts:
    """How many draws and trials there were to choose from, and whether trials redraw."""
    if selected.chosen.empty:
        none = "no eligible run" if len(selected.alone) else "no run holds out exactly one domain"
        return {"draws": f"none, {none}"}
    numbers, trials = {}, {}
    for key in selected.rows:
        rows = selected.part(key, selected.chosen)
        if not rows.empty:
            fewest, most, n = rows["draws"].min(), rows["draws"].max(), rows["trial"].nunique()
            numbers[key] = str(most) if fewest == most else f"{fewest} to {most}"
            redrawn = _replicates(selected.part(key, selected.cases)) if n > 1 else ""
            trials[key] = f"{n}{redrawn}"
    return {"draws": _by_method(selected, numbers), "trials": _by_method(selected, trials)}


def _replicates(cases: pd.DataFrame) -> str:
    """Whether trials draw hyper-parameters of their own, or repeat the same draws.

    Empty where neither is certain: trials lack draws that others have, and have none of their own.
    """
    alone = cases[cases["test_domain"].notna()]
    by_trial = [set(draws) for _, draws in alone.groupby("trial")["draw"]]
    every = set(alone["draw"])
    if all(draws == every for draws in by_trial):
        return ", replicates with the same hyper-parameters"
    return ", each with hyper-parameters drawn anew" if len(every) > max(map(len, by_trial)) else ""


def activity(selected: Selected) -> Facts:
    """How many choices precede the step at which the method acts, and how many runs never act."""
    chosen = selected.chosen
    runs = selected.cases[selected.cases["test_domain"].notna()].drop_duplicates("run")
    last = runs["run"].map(selected.results.evaluations.groupby("run")["step"].max())
    late = selected.rule.after_warmup & last.notna() & ~acts(runs["acts_from"], last)
    trained = [{*d} - {*t} for d, t in zip(runs["domains"], runs["test_domains"], strict=True)]
    alone = (pd.Series(trained, runs.index).map(len) == 1) & ~runs["plain"]
    warm_ups = bool((runs["acts_from"] != 0).fillna(True).any())
    early = int((~chosen["acts"]).sum())
    by_method = f" ({_counts(selected, chosen, ~chosen['acts'])})" * bool(early)
    counted = {
        "the warm-up takes all steps, or the penalty has weight 0": runs["acts_from"].isna(),
        "one training domain, and so nothing to match": alone,
        "left out, as the method has not acted": late,
        "training risk of guessing or above": runs["fit"] == "lost",
        "worse fit of the training domains once the method acts, expected where it gives up a "
        "shortcut": runs["fit"].isin(["worse", "gained"]),
        "of these, with a higher accuracy on the test domain": runs["fit"] == "gained",
    }
    return {
        "chosen before the method acts": f"{early} of {len(chosen)}{by_method}" if warm_ups else "",
        **{label: _counts(selected, runs, rows) for label, rows in counted.items()},
    }


def _counts(selected: Selected, rows: pd.DataFrame, counted: pd.Series[bool]) -> str:
    """How many of the rows of each method are counted, for the methods that have any."""
    parts = {key: counted[selected.part(key, rows).index] for key in selected.rows}
    return "; ".join(
        f"{selected.label(*key)} {int(part.sum())} of {len(part)}"
        for key, part in parts.items()
        if part.any()
    )


def _by_method(selected: Selected, values: Mapping[RowKey, str]) -> str:
    """Each value once, with the methods it holds for unless it holds for all."""
    holding: dict[str, list[RowKey]] = defaultdict(list)
    for key, value in values.items():
        holding[value].append(key)
    return "; ".join(
        value if len(keys) == len(values) else f"{value} ({_joined(starmap(selected.label, keys))})"
        for value, keys in holding.items()
        if value
    )


def _unlike(selected: Selected) -> str:
    phrases = []
    for name, title in ALIKE.items():
        values = selected.alone.groupby(CASE)[name].nunique()
        different = values[values > 1].index
        labels = dict.fromkeys(selected.label(case[2], case[1]) for case in different)
        phrases += [f"{title} ({_joined(labels)})"] if labels else []
    return "; ".join(phrases)


def unequal(selected: Selected) -> str:
    """In what the chosen runs of methods differ from those of ERM besides the method.

    A row is compared with ERM with the same network, test domain and trial.
    """
    runs = selected.results.runs.set_index("run")
    differences = {}
    for key in selected.rows:
        chosen, erm = (
            selected.part(row, selected.chosen).set_index(["test_domain", "trial"])["run"]
            for row in (key, key._replace(variant="erm"))
        )
        pairs = chosen.index.intersection(erm.index)
        if key.variant == "erm" or pairs.empty:
            continue
        differing = []
        for name, title in SETTINGS.items():
            ours, theirs = (runs[name].loc[ids[pairs]] for ids in (chosen, erm))
            if not ours.reset_index(drop=True).equals(theirs.reset_index(drop=True)):
                fixed = name == "batch_size" and ours.nunique() == theirs.nunique() == 1
                values = f" ({ours.iloc[0]}, ERM {theirs.iloc[0]})" if fixed else ""
                differing.append(f"{title}{values}")
        differences[key] = ", ".join(differing)
    return _by_method(selected, differences)


def _joined(labels: Iterable[str]) -> str:
    """Labels in a row; some hold commas themselves."""
    known = list(labels)
    return ("; " if any("," in label for label in known) else ", ").join(known)


def _unchosen(selected: Selected) -> str:
    cases = selected.alone.drop_duplicates(CASE)
    chosen = set(map(tuple, selected.chosen[CASE].to_numpy()))
    missed = [tuple(case) not in chosen for case in cases[CASE].to_numpy()]
    return _counts(selected, cases, pd.Series(missed, cases.index, dtype=bool))


class Place(NamedTuple):
    """Where a run belongs in a table."""

    row: str
    domains: str
    """The test domains."""
    trial: int


def missing(selected: Selected) -> str:
    """The runs that are missing, counted by row and test domain.

    With a plan, these are its runs without an evaluation. Without one, every test domain and trial
    of a method should have as many draws as the one with the most; for ``leave-one-out`` so should
    every pair of domains. Rules that choose one draw for all trials need no more than that draw in
    every trial, so for them nothing is missing.
    """
    columns = ("run", "test_domains", "trial", *RowKey._fields)
    places = {
        run: Place(selected.label(*key), domains_title(tests), trial)
        for run, tests, trial, *key in zip(*(selected.cases[name] for name in columns), strict=True)
    }
    present = Counter(places[run] for run in set(selected.evaluated["run"]))
    rows = list(dict.fromkeys(starmap(selected.label, selected.rows)))
    if selected.planned:
        planned = Counter(places.values())
        order = sorted(planned, key=lambda place: rows.index(place.row))
        return _lacking({place: planned[place] for place in order}, present)
    if selected.rule.over == "all trials":
        return ""
    single = set(selected.alone["test_domains"].map(domains_title))
    left_out = [*selected.domains] if single <= {*selected.domains} else sorted(single)
    if selected.rule.domains == "left-out":
        left_out += [" and ".join(pair) for pair in combinations(selected.domains, 2)]
    most, trials = Counter[str](), defaultdict[str, set[int]](set)
    for place, n in present.items():
        if place.domains in single:
            most[place.row] = max(most[place.row], n)
            trials[place.row].add(place.trial)
    expected = {
        Place(row, domains, trial): most[row]
        for row in rows
        for domains in left_out
        for trial in trials[row]
    }
    return _lacking(expected, present)


def _lacking(expected: Mapping[Place, int], present: Mapping[Place, int]) -> str:
    """How many of the expected runs are missing, by row and test domains, or by row.

    Example:
        >>> expected = {Place("ERM", d, t): 5 for d in ("photo", "sketch") for t in (0, 1)}
        >>> _lacking(expected, {**expected, Place("ERM", "photo", 1): 3})
        'ERM on photo 2 of 10 runs'
        >>> _lacking(expected, {})
        'ERM 20 of 20 runs'
    """
    lacking, total = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for place, n in expected.items():
        total[place[:2]] += n
        lacking[place[:2]] += max(0, n - present.get(place, 0))
    phrases = []
    for row in dict.fromkeys(row for row, _ in total):
        gaps = {key: n for key, n in lacking.items() if key[0] == row and n}
        every = [key for key in total if key[0] == row]
        if len(gaps) > FEW or len(gaps) == len(every) > 1:
            phrases.append(f"{row} {sum(gaps.values())} of {sum(total[k] for k in every)} runs")
        else:
            phrases += [f"{row} on {key[1]} {n} of {total[key]} runs" for key, n in gaps.items()]
    return "; ".join(phrases)
