"""How a table was made: the rule, the numbers of draws and trials, and what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations, starmap
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from riskmatch.report.titles import domains_title
from riskmatch.selection import CASE, acts

if TYPE_CHECKING:
    from riskmatch.report.selected import RowKey, Selected

ALIKE = {"steps": "steps", "model_options": "model options"}
"""Settings that no search draws, so that the runs of a case should have them in common."""
SETTINGS = {
    **{"batch_size": "batch size", "lr": "learning rate", "weight_decay": "weight decay"},
    **{name: name for name in ("dropout", "steps", "schedule", "clip", "amp")},
}
"""Settings of a run besides the method; searches draw the first four for each method."""
_WHOLE_TRIALS = "Averages are over the trials that have every test domain."
_AFTER = ", among the steps at which the method acts"
FEW = 3
"""More missing runs of a place, and more places of a row, are not named."""


def notes(selected: Selected) -> str:
    """The sentences that every table carries."""
    sentences = [
        f"Selection {selected.rule.name}: the best of {selected.rule.summary}"
        f"{_AFTER * selected.rule.after_warmup}; {draws(selected)}.",
        *methods_at_work(selected),
        _WHOLE_TRIALS if _is_ragged(selected) else "",
        f"Network: {_names(selected.models)}." if selected.models else "",
        _listed("Chosen among runs that differ in more than their draw", _unlike(selected)),
        _listed("Pairs with ERM differ in more than the method", unequal(selected)),
        _listed("Missing", missing(selected)),
        _listed("Nothing to choose from", _unchosen(selected)),
        _listed("Not finished, counted with the steps they have", _unfinished(selected)),
    ]
    return " ".join(filter(None, sentences))


def draws(selected: Selected) -> str:
    """How many draws and trials there were to choose from, and whether trials redraw.

    Methods are named where they differ in that.
    """
    if selected.alone.empty:
        return "no run has one test domain alone"
    if selected.chosen.empty:
        return "no draw that it could choose"
    sizes, kinds = {}, {}
    for key in selected.rows:
        own = selected.part(key, selected.chosen)
        if not own.empty:
            trials = own["trial"].nunique()
            sizes[key] = _size(int(own["draws"].min()), int(own["draws"].max()), trials)
            kinds[key] = _replicates(selected.part(key, selected.cases)) if trials > 1 else ""
    return "; ".join([*_phrases(selected, sizes), *_phrases(selected, kinds)])


def methods_at_work(selected: Selected) -> list[str]:
    """How many choices precede the step at which the method acts, and how many runs never act."""
    chosen = selected.chosen
    runs = selected.cases[selected.cases["test_domain"].notna()].drop_duplicates("run")
    last = runs["run"].map(selected.results.evaluations.groupby("run")["step"].max())
    late = selected.rule.after_warmup & last.notna() & ~acts(runs["acts_from"], last)
    trained = [{*d} - {*t} for d, t in zip(runs["domains"], runs["test_domains"], strict=True)]
    alone = (pd.Series(trained, runs.index).map(len) == 1) & ~runs["plain"]
    warm_ups = bool((runs["acts_from"] != 0).fillna(True).any())
    early = f"{int((~chosen['acts']).sum())} of {len(chosen)} chosen before the method acts"
    by_method = _counts(selected, chosen, ~chosen["acts"])
    listed = {
        "The warm-up takes all steps, or the penalty has weight 0": runs["acts_from"].isna(),
        "One training domain, and so nothing to match": alone,
        "Left out, as the method has not acted": late,
        "Training risk of guessing or above": runs["fit"] == "lost",
        "Worse fit of the training domains once the method acts, expected where it gives up a "
        "shortcut": runs["fit"].isin(["worse", "gained"]),
        "Of these, with a higher accuracy on the test domain": runs["fit"] == "gained",
    }
    return [
        *([f"{early}{f' ({by_method})' if by_method else ''}."] if warm_ups else []),
        *(
            f"{title}: {counts} runs."
            for title, rows in listed.items()
            if (counts := _counts(selected, runs, rows))
        ),
    ]


def _is_ragged(selected: Selected) -> bool:
    """Whether test domains of a method differ in their trials."""
    numbers = ({len(v) for v in selected.by_domain(key).values()} for key in selected.rows)
    return any(len(different - {0}) > 1 for different in numbers)


def _counts(selected: Selected, rows: pd.DataFrame, counted: pd.Series[bool]) -> str:
    """How many of the rows of each method are counted, for the methods that have any."""
    own = {key: counted[selected.part(key, rows).index] for key in selected.rows}
    return "; ".join(
        f"{selected.label(*key)} {int(part.sum())} of {len(part)}"
        for key, part in own.items()
        if part.any()
    )


def _size(fewest: int, most: int, trials: int) -> str:
    span = str(most) if fewest == most else f"{fewest} to {most}"
    draws = f"{span} draw{'s' * (most != 1)}"
    return f"{draws}, one trial" if trials == 1 else f"{draws} in each of {trials} trials"


def _replicates(cases: pd.DataFrame) -> str:
    """Whether trials draw hyper-parameters of their own, or repeat the same draws.

    Empty where neither is certain: trials lack draws that others have, and have none of their own.
    """
    alone = cases[cases["test_domain"].notna()]
    own = [set(draws) for _, draws in alone.groupby("trial")["draw"]]
    every = set(alone["draw"])
    if all(draws == every for draws in own):
        return "trials are replicates with the same hyper-parameters"
    return "trials draw hyper-parameters anew" if len(every) > max(map(len, own)) else ""


def _phrases(selected: Selected, phrases: dict[RowKey, str]) -> list[str]:
    """Each phrase once, with the methods it holds for unless it holds for all."""
    holding: dict[str, list[RowKey]] = defaultdict(list)
    for key, phrase in phrases.items():
        holding[phrase].append(key)
    return [
        phrase
        if len(keys) == len(phrases)
        else f"{phrase} ({_names(starmap(selected.label, keys))})"
        for phrase, keys in holding.items()
        if phrase
    ]


def _unlike(selected: Selected) -> list[str]:
    phrases = []
    for name, title in ALIKE.items():
        values = selected.alone.groupby(CASE)[name].nunique()
        different = values[values > 1].index
        labels = dict.fromkeys(selected.label(case[2], case[1]) for case in different)
        phrases += [f"{title} ({_names(labels)})"] if labels else []
    return phrases


def unequal(selected: Selected) -> list[str]:
    """In what the chosen runs of methods differ from those of ERM besides the method.

    A row is compared with ERM with the same network, test domain and trial.
    """
    runs = selected.results.runs.set_index("run")
    phrases = {}
    for key in selected.rows:
        own, erm = (
            selected.part(row, selected.chosen).set_index(["test_domain", "trial"])["run"]
            for row in (key, key._replace(variant="erm"))
        )
        pairs = own.index.intersection(erm.index)
        if key.variant == "erm" or pairs.empty:
            continue
        differing = []
        for name, title in SETTINGS.items():
            ours, theirs = (runs[name].loc[chosen[pairs]] for chosen in (own, erm))
            if not ours.reset_index(drop=True).equals(theirs.reset_index(drop=True)):
                fixed = name == "batch_size" and ours.nunique() == theirs.nunique() == 1
                values = f" ({ours.iloc[0]}, ERM {theirs.iloc[0]})" if fixed else ""
                differing.append(f"{title}{values}")
        phrases[key] = ", ".join(differing)
    return _phrases(selected, phrases)


def _names(labels: Iterable[str]) -> str:
    """Labels in a row; some hold commas themselves."""
    known = list(labels)
    return ("; " if any("," in label for label in known) else ", ").join(known)


def _unchosen(selected: Selected) -> list[str]:
    every, chosen = (set(map(tuple, f[CASE].to_numpy())) for f in (selected.alone, selected.chosen))
    return [
        f"{selected.label(variant, model)} on {domain}, trial {trial}"
        for _, model, variant, domain, trial in sorted(every - chosen)
    ]


def _unfinished(selected: Selected) -> list[str]:
    unfinished = selected.evaluated[selected.evaluated["status"] != "done"]
    return [
        f"{place.row} on {place.domains}, trial {place.trial}" + (f" ({n} runs)" if n > 1 else "")
        for place, n in sorted(Counter(_places(selected, unfinished).values()).items())
    ]


def _listed(title: str, phrases: list[str]) -> str:
    return f"{title}: {'; '.join(phrases)}." if phrases else ""


class Place(NamedTuple):
    """Where a run belongs in a table."""

    row: str
    """Label of its row."""
    domains: str
    """The test domains."""
    trial: int


def _places(selected: Selected, cases: pd.DataFrame) -> dict[str, Place]:
    """The place of every run, by id."""
    columns = ("run", "variant", "model", "test_domains", "trial")
    runs = zip(*(cases[name] for name in columns), strict=True)
    return {
        run: Place(selected.label(variant, model), domains_title(tests), trial)
        for run, variant, model, tests, trial in runs
    }


def missing(selected: Selected) -> list[str]:
    """The runs that are missing, in as few phrases as name them all.

    With a plan, these are its runs without an evaluation. Without one, every test domain and trial
    of a method should have as many draws as the one with the most; for ``leave-one-out`` so should
    every pair of domains. Rules that choose one draw for all trials need no more than that draw in
    every trial, so for them nothing is missing.
    """
    places = _places(selected, selected.cases)
    evaluated = dict.fromkeys(selected.evaluated["run"])
    found = Counter(places[run] for run in evaluated)
    if selected.planned:
        names = defaultdict(list)
        for run in places.keys() - evaluated.keys():
            names[places[run]].append(run)
        return gaps(Counter(places.values()), found, names)
    if selected.rule.over == "all trials":
        return []
    single = set(selected.alone["test_domains"].map(domains_title))
    held_out = [*selected.domains] if single <= {*selected.domains} else sorted(single)
    if selected.rule.domains == "left-out":
        held_out += [" and ".join(pair) for pair in combinations(selected.domains, 2)]
    most: dict[str, int] = defaultdict(int)
    trials: dict[str, set[int]] = defaultdict(set)
    for place, n in found.items():
        if place.domains in single:
            most[place.row] = max(most[place.row], n)
            trials[place.row].add(place.trial)
    expected = {
        Place(row, domains, trial): n
        for row, n in most.items()
        for domains in held_out
        for trial in trials[row]
    }
    return gaps(expected, found)


def gaps(
    expected: Mapping[Place, int],
    found: Mapping[Place, int],
    names: Mapping[Place, Iterable[str]] | None = None,
) -> list[str]:
    """Where runs are missing.

    Args:
        expected: how many runs there should be in each place.
        found: how many there are.
        names: the ids of those that are missing, where they are known.

    Example:
        >>> expected = {Place("ERM", d, t): 5 for d in ("photo", "sketch") for t in (0, 1)}
        >>> gaps(expected, {Place("ERM", "photo", 0): 5, Place("ERM", "photo", 1): 3})
        ['ERM on photo, trial 1: 2 of 5 runs', 'ERM on sketch: all 10 runs']
        >>> gaps(expected, {place: 3 for place in expected})
        ['ERM: 2 of 5 runs in every test domain and trial']
    """
    phrases = []
    for row in dict.fromkeys(place.row for place in expected):
        own = {place: n for place, n in expected.items() if place.row == row}
        if phrase := _everywhere(own, found):
            phrases.append(f"{row}: {phrase}")
            continue
        places = []
        for domains in dict.fromkeys(place.domains for place in own):
            here = {place: n for place, n in own.items() if place.domains == domains}
            if len(here) > 1 and (phrase := _everywhere(here, found)):
                places.append(f"{row} on {domains}: {phrase}")
                continue
            places += [
                f"{row} on {domains}, trial {place.trial}: {n - found.get(place, 0)} of {n} runs"
                f"{_ids((names or {}).get(place, ()))}"
                for place, n in sorted(here.items())
                if found.get(place, 0) < n
            ]
        if len(places) > FEW:
            lack = sum(max(0, n - found.get(place, 0)) for place, n in own.items())
            places = [f"{row}: {lack} of {sum(own.values())} runs"]
        phrases += places
    return phrases


def _ids(runs: Iterable[str]) -> str:
    known = sorted(runs)
    return f" ({', '.join(known[:FEW])}{' …' * (len(known) > FEW)})" if known else ""


def _everywhere(expected: Mapping[Place, int], found: Mapping[Place, int]) -> str:
    """What is missing, where that is everything, or the same in all places; else empty."""
    if not any(found.get(place) for place in expected):
        return f"all {sum(expected.values())} runs"
    (lack, n), *others = {(n - found.get(place, 0), n) for place, n in expected.items()}
    if others or lack <= 0 or len(expected) == 1:
        return ""
    spread = {
        "test domain": len({place.domains for place in expected}),
        "trial": len({place.trial for place in expected}),
    }
    where = " and ".join(name for name, number in spread.items() if number > 1)
    return f"{lack} of {n} runs in every {where}"
