"""Facts about tables and reports: the rule, draws and trials, what is missing, and cautions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, starmap
from pathlib import Path
from typing import Any

import pandas as pd

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.metrics import ACCURACY, MetricFacts
from riskmatch.report.selected import NO_GRADIENT, PageRuns, RowKey, Selected, choices_by_run
from riskmatch.report.tables import capitalised
from riskmatch.report.titles import data_title, domains_title, setting_title
from riskmatch.selection import CASE, Rule, acts

Facts = dict[str, str]
"""Values by label, in the order in which they are shown; empty values are left out."""
ALIKE = ["steps", "model_options"]
"""Settings that no search draws, so that the runs of a case should have them in common."""
SETTINGS = ("batch_size", "lr", "weight_decay", "dropout", "steps", "schedule", "clip", "amp")
"""Settings of a run besides the method; searches draw the first four for each method."""
UNEQUAL = "pairs with ERM differ in more than the method"
FEW = 3
"""Runs that are missing in more test domains of a row are counted together."""
MAX_IMAGES = 2000
"""Larger data sets are not searched for near-duplicates; riskmatch data doctor searches any."""
DROP = 0.05
"""Smallest loss that is reported: of a metric between 0 and 1, or as a share of another."""


def lines(facts: Mapping[str, str], about: str = "") -> list[str]:
    """The text of facts, one line each, each label after what the facts are ``about``.

    Example:
        >>> lines({"missing": "ERM on photo 2 of 5 runs", "network": ""})
        ['Missing: ERM on photo 2 of 5 runs.']
        >>> lines({"trials": "2"}, "PACS")
        ['PACS, trials: 2.']
    """
    labelled = {f"{about}, {label}" if about else label: text for label, text in facts.items()}
    return [
        f"{capitalised(label)}: {text.rstrip('.')}." for label, text in labelled.items() if text
    ]


def summary_of(rule: Rule, metric: MetricFacts) -> str:
    """What a rule compares, in the words of a metric.

    Example:
        >>> from riskmatch.metrics import METRICS
        >>> from riskmatch.selection import RULES
        >>> summary_of(RULES["train-val"], METRICS["rmse"])
        'lowest mean validation RMSE over the training domains, over draws and steps'
    """
    best, after = "highest" if metric.higher else "lowest", ", among the steps at which the method"
    words = rule.summary.removeprefix("the ").replace(ACCURACY, metric.title)
    return f"{best} {words}{f'{after} acts' * rule.after_warmup}"


def selection_facts(selected: Selected) -> Facts:
    """How the numbers of a table were chosen, and what they lack."""
    trials = [{len(v) for v in selected.by_domain(key).values()} for key in selected.rows]
    ragged = any(len(numbers - {0}) > 1 for numbers in trials)
    cases = selected.alone.drop_duplicates(CASE)
    chosen = pd.MultiIndex.from_frame(cases[CASE]).isin(
        set(selected.chosen[CASE].itertuples(index=False, name=None))
    )
    unfinished = selected.evaluated["status"] != "done"
    return {
        "selection": f"{selected.rule.name}, {summary_of(selected.rule, selected.facts)}",
        **draws(selected),
        **activity(selected),
        "averages": "over the trials that have every test domain" * ragged,
        "network": joined(selected.models),
        "chosen among runs that differ in more than their draw": _unlike(selected),
        UNEQUAL: unequal(selected),
        "missing": missing(selected),
        "no eligible run": _counts(selected, cases, pd.Series(~chosen, cases.index)),
        "unfinished, counted with the steps they have": _counts(
            selected, selected.evaluated, unfinished
        ),
    }


def page_facts(page: PageRuns, shown: int) -> Facts:
    """How the runs of a report were read, and which are missing.

    Args:
        page: runs of the report.
        shown: number of runs shown in detail.
    """
    runs, table, plan = page.runs, page.cases, page.results.plan
    number, several = len(runs), len(page.by_data) > 1
    tested = table[table["test_domains"].map(len) > 0]
    cases = tested["test_domain"].notna().groupby(tested["data"], sort=False).any()
    best, worst = ("highest", "lowest") if page.facts.higher else ("lowest", "highest")
    detailed = (
        f"{shown} of {number} runs, chosen by {page.main_rules}: one for each test domain of the "
        f"method with the {best} average, the {worst} first, then of ERM and others. For another "
        "run, give its folder"
    )
    facts = {
        "shown in detail": detailed * (shown < number),
        "trials": "runs that differ only in their seeds"
        * bool((table["trial"] != table["own_trial"]).any()),
        "methods are not compared on": "; ".join(
            f"{data_title(one.data)} (few runs)" for one in page.by_data if not one.is_default
        ),
        "trained on all domains, without a test domain": _share(len(table) - len(tested), number),
        "not compared, as runs with several test domains train on different domains": "; ".join(
            data_title(str(data)) for data in cases.index[~cases]
        ),
        "unfinished, counted with their evaluations so far": _share(
            int((runs["status"] != "done").sum()), number
        ),
    }
    absent = len({config.id for config in plan} - set(runs["run"]))
    for one in page.by_data:
        about = activity(one.main)
        if number == 1:  # the findings of a single run say the rest
            early = "the chosen step belongs to the warm-up" * (not one.main.chosen["acts"].all())
            about = {"chosen before the method acts": early}
        if one.is_default:
            about |= {UNEQUAL: unequal(one.main), "missing": missing(one.main) if absent else ""}
        data = f"{data_title(one.data)}, " * several
        facts |= {f"{data}{label}": value for label, value in about.items()}
    return {**facts, "planned runs that are missing": f"{absent} of {len(plan)}" * bool(absent)}


def _share(n: int, total: int) -> str:
    return f"{n} of {total} runs" * bool(n)


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
    by_trial, every = alone.groupby("trial")["draw"].nunique(), alone["draw"].nunique()
    if (by_trial == every).all():
        return ", replicates with the same hyper-parameters"
    return ", each with hyper-parameters drawn anew" if every > by_trial.max() else ""


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
        f"{NO_GRADIENT} the penalty changes no weight of the network, as no layer before the "
        "classifier is trained": runs["no_gradient"],
        "training risk of guessing or above": runs["fit"] == "lost",
        "worse fit of the training domains once the method acts, expected where it gives up a "
        "shortcut": runs["fit"].isin(["worse", "gained"]),
        f"of these, with a {'higher' if selected.facts.higher else 'lower'} "
        f"{selected.facts.title} on the test domain": runs["fit"] == "gained",
    }
    return {
        "chosen before the method acts": f"{early} of {len(chosen)}{by_method}" * warm_ups,
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
        value if len(keys) == len(values) else f"{value} ({joined(starmap(selected.label, keys))})"
        for value, keys in holding.items()
        if value
    )


def _unlike(selected: Selected) -> str:
    differing = selected.alone.groupby(CASE)[ALIKE].nunique() > 1
    labels = {
        setting_title(name): dict.fromkeys(
            selected.label(variant, model)
            for _, model, variant, *_ in differing.index[differing[name]]
        )
        for name in ALIKE
    }
    return "; ".join(f"{title} ({joined(rows)})" for title, rows in labels.items() if rows)


def unequal(selected: Selected) -> str:
    """In what the chosen runs of methods differ from those of ERM besides the method.

    A row is compared with ERM with the same network, test domain and trial.
    """
    case = ["test_domain", "trial"]
    chosen = selected.chosen[["run", "variant", "model", *case]]
    chosen = chosen.merge(selected.results.runs[["run", *SETTINGS]], on="run")
    differences = {}
    for key in selected.rows:
        erm = selected.part(key._replace(variant="erm"), chosen)
        pairs = selected.part(key, chosen).merge(erm, on=case, suffixes=("", "_erm"))
        if key.variant == "erm" or pairs.empty:
            continue
        differing = []
        for name in SETTINGS:
            ours, theirs = pairs[name], pairs[f"{name}_erm"]
            if not ours.equals(theirs):
                fixed = name == "batch_size" and ours.nunique() == theirs.nunique() == 1
                values = f" ({ours.iloc[0]}, ERM {theirs.iloc[0]})" * fixed
                differing.append(f"{setting_title(name)}{values}")
        differences[key] = ", ".join(differing)
    return _by_method(selected, differences)


def joined(labels: Iterable[str]) -> str:
    """Labels in a row; some hold commas themselves."""
    known = list(labels)
    return ("; " if any("," in label for label in known) else ", ").join(known)


def missing(selected: Selected) -> str:
    """The runs that are missing, counted by row and test domains, with their trials unless all.

    With a plan, these are its runs without an evaluation. Without one, every test domain and trial
    of a method should have as many draws as the one with the most; for ``leave-one-out`` so should
    every pair of domains. Rules that choose one draw for all trials need no more than that draw in
    every trial, so for them nothing is missing.
    """
    place = ["row", "tests", "trial"]
    runs = selected.cases.drop_duplicates("run")
    keys = zip(*(runs[name] for name in RowKey._fields), strict=True)
    runs = runs.assign(
        row=list(starmap(selected.label, keys)),
        tests=runs["test_domains"].map(domains_title),
        present=runs["domains"].map(len) > 0,
    )
    if selected.planned:
        table = runs.groupby(place)["present"].agg(expected="size", present="sum").reset_index()
    elif selected.rule.over == "all trials" or selected.alone.empty:
        return ""
    else:
        alone = set(selected.alone["test_domains"].map(domains_title))
        left_out = [*selected.domains] if alone <= {*selected.domains} else sorted(alone)
        if selected.rule.domains == "left-out":
            left_out += [" and ".join(pair) for pair in combinations(selected.domains, 2)]
        present = runs[runs["present"]].groupby(place).size()
        tested = present[present.index.isin(alone, level="tests")]
        trials = tested.reset_index()[["row", "trial"]].drop_duplicates()
        table = pd.DataFrame({"tests": left_out}).merge(trials, how="cross")
        table["expected"] = table["row"].map(tested.groupby("row").max())
        index = pd.MultiIndex.from_frame(table[place])
        table["present"] = present.reindex(index, fill_value=0).to_numpy()
    table["lacking"] = (table["expected"] - table["present"]).clip(lower=0)
    phrases = []
    for row in dict.fromkeys(starmap(selected.label, selected.rows)):
        part = table[table["row"] == row]
        by_tests = {f" on {tests}": rows for tests, rows in part.groupby("tests", sort=False)}
        gaps = {tests: rows for tests, rows in by_tests.items() if rows["lacking"].any()}
        if len(gaps) > FEW or len(gaps) == len(by_tests) > 1:
            gaps = {"": part}
        for tests, rows in gaps.items():
            without = rows.loc[rows["lacking"] > 0, "trial"]
            some = f" (trial {', '.join(map(str, without))})" if len(without) < len(rows) else ""
            number, total = rows["lacking"].sum(), rows["expected"].sum()
            phrases.append(f"{row}{tests} {number} of {total} runs{some * bool(tests)}")
    return "; ".join(phrases)


def lost_without_another_domain(selected: Selected) -> Iterator[str]:
    """Cautions from runs without two domains: where leaving out the second harms the metric."""
    table = selected.cases
    both = table[table["test_domain"].isna() & (table["test_domains"].map(len) == 2)]
    if both.empty:
        return
    split = both.assign(test_domain=both["test_domains"]).explode("test_domain", ignore_index=True)
    chosen = choices_by_run(replace(selected, cases=split)).drop(columns="trial")
    chosen = chosen.merge(both[["run", "test_domains", "trial"]], on="run")
    case = ["model", "variant", "test_domain", "trial"]
    pairs = chosen.sort_values("score", ascending=False).drop_duplicates([*case, "test_domains"])
    shared = pairs.merge(selected.chosen, on=case, suffixes=("", "_alone"))
    groups: Any = shared.groupby(["test_domains", "test_domain"])
    facts, decimals = selected.facts, selected.decimals
    change, estimates = ("lowers", "over") if facts.higher else ("raises", "under")
    for (tests, domain), rows in groups:
        before, after = float(rows["value_alone"].mean()), float(rows["value"].mean())
        if facts.gain(before, after) >= DROP * (1 if facts.percent else abs(before)):
            (other,) = (name for name in tests if name != domain)
            values = (f"{facts.scale * value:.{decimals}f}" for value in (before, after))
            yield (
                f"Leaving out {other} as well {change} the {facts.title} on {domain} from "
                f"{' to '.join(values)}: with {other} in training, the {facts.title} "
                f"on {domain} {estimates}estimates that on a new domain."
            )


def pictures_in_common(selected: Selected, data_dir: Path | None = None) -> Iterator[str]:
    """Cautions from the images: training domains that share images with a test domain."""
    name = str(selected.cases["own_data"].iloc[0])
    if name in BENCHMARKS and BENCHMARKS[name].images > MAX_IMAGES:
        return
    from riskmatch.data.catalogue import resolve  # imports torch

    try:
        data = resolve(name)
        if data.contents != "images":
            return
        index = data.index(data_dir)
    except (OSError, ValueError, ImportError, RuntimeError):
        return  # the notes on hardest samples name the cause
    if len(index) > MAX_IMAGES:
        return
    from riskmatch.data.doctor import siblings_in

    left_out = set(map(frozenset, selected.alone["test_domains"]))
    for one in siblings_in(index):
        family = set(one.domains)
        if any(tests & family and not family <= tests for tests in left_out):
            yield (
                f"{one.title} have {one.images} images in common: leaving out one of them "
                f"{'over' if selected.facts.higher else 'under'}estimates the "
                f"{selected.facts.title} on a new domain. {one.cure}"
            )
