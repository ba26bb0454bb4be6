"""How a table was made: the rule, how many draws and trials, and which runs are missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from riskmatch.config import RunConfig
from riskmatch.report.selected import RowKey, Selected
from riskmatch.selection import EXPLAINED, by_case, redrawn, variant


class Place(NamedTuple):
    """Where a run belongs."""

    row: str
    """The label of its row."""
    domains: str
    """Those held out."""
    trial: int


def how(selected: Selected) -> str:
    """The sentences that every table carries."""
    sentences = [
        f"Selection {selected.rule}: the best of {EXPLAINED[selected.rule]}; {draws(selected)}.",
        f"Network: {', '.join(selected.models)}." if selected.models else "",
        _listed("Missing", missing(selected)),
        _listed("Nothing to choose from", _unchosen(selected)),
        _listed("Not finished, and counted with the steps they have", _unfinished(selected)),
    ]
    return " ".join(filter(None, sentences))


def missing(selected: Selected) -> list[str]:
    """What is missing, each in a phrase.

    That is known from the plan. Where there is none, every test domain and trial of a method should
    have as many draws as the one with the most.
    """
    found = _places(selected, (run.config for run in selected.runs))
    if selected.plan:
        return gaps(_places(selected, selected.plan), found)
    expected: Counter[Place] = Counter()
    most: dict[str, int] = defaultdict(int)
    trials: dict[str, set[int]] = defaultdict(set)
    alone = {place: n for place, n in found.items() if place.domains in selected.domains}
    for place, n in alone.items():
        most[place.row] = max(most[place.row], n)
        trials[place.row].add(place.trial)
    for row, n in most.items():
        for domain in selected.domains:
            expected.update({Place(row, domain, trial): n for trial in trials[row]})
    return gaps(expected, alone)


def gaps(expected: Mapping[Place, int], found: Mapping[Place, int]) -> list[str]:
    """Where runs are missing, in as few phrases as say it all.

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
        if told := _alike(own, found):
            phrases.append(f"{row}: {told}")
            continue
        for domains in dict.fromkeys(place.domains for place in own):
            here = {place: n for place, n in own.items() if place.domains == domains}
            if len(here) > 1 and (told := _alike(here, found)):
                phrases.append(f"{row} on {domains}: {told}")
                continue
            phrases += [
                f"{row} on {domains}, trial {place.trial}: {n - found.get(place, 0)} of {n} runs"
                for place, n in sorted(here.items())
                if found.get(place, 0) < n
            ]
    return phrases


def _alike(expected: Mapping[Place, int], found: Mapping[Place, int]) -> str:
    """What is missing where that is all, or everywhere the same; else nothing."""
    if not any(found.get(place) for place in expected):
        return f"all {sum(expected.values())} runs"
    lacking = {(n - found.get(place, 0), n) for place, n in expected.items()}
    (lack, n), *others = lacking
    if others or lack <= 0 or len(expected) == 1:
        return ""
    spread = {
        "test domain": len({place.domains for place in expected}),
        "trial": len({place.trial for place in expected}),
    }
    where = " and ".join(name for name, number in spread.items() if number > 1)
    return f"{lack} of {n} runs in every {where}"


def _places(selected: Selected, configs: Iterable[RunConfig]) -> Counter[Place]:
    return Counter(_place(selected, config) for config in configs)


def _place(selected: Selected, config: RunConfig) -> Place:
    row = selected.label(RowKey(variant(config), config.model))
    return Place(row, " and ".join(config.test_domains), config.trial)


def draws(selected: Selected) -> str:
    """How many draws and trials, and whether trials redraw the hyper-parameters."""
    cases = by_case(selected.runs)
    if not cases:
        return "no runs"
    counts = sorted({len(members) for members in cases.values()})
    trials = {case.trial for case in cases}
    draws = f"{_span(counts)} draw{'s' * (counts[-1] != 1)}"
    if len(trials) == 1:
        return f"{draws}, one trial"
    rows: dict[RowKey, list[RunConfig]] = defaultdict(list)
    for case, members in cases.items():
        rows[RowKey(case.method, case.model)] += [run.config for run in members]
    anew = {key for key, configs in rows.items() if redrawn(configs)}
    kinds = {
        "trials draw hyper-parameters anew": [key for key in rows if key in anew],
        "trials are replicates with the same hyper-parameters": [
            key for key in rows if key not in anew
        ],
    }
    told = [
        kind if len(keys) == len(rows) else f"{kind} ({', '.join(map(selected.label, keys))})"
        for kind, keys in kinds.items()
        if keys
    ]
    return f"{draws} in each of {len(trials)} trials; {'; '.join(told)}"


def _span(counts: list[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _unchosen(selected: Selected) -> list[str]:
    chosen = {choice.case for choice in selected.choices}
    return [
        f"{selected.label(RowKey(case.method, case.model))} on {case.domain}, trial {case.trial}"
        for case in sorted(by_case(selected.runs))
        if case not in chosen
    ]


def _unfinished(selected: Selected) -> list[str]:
    found = Counter(_place(selected, run.config) for run in selected.runs if run.status != "done")
    return [
        f"{place.row} on {place.domains}, trial {place.trial}" + (f" ({n} runs)" if n > 1 else "")
        for place, n in sorted(found.items())
    ]


def _listed(title: str, phrases: list[str]) -> str:
    return f"{title}: {'; '.join(phrases)}." if phrases else ""
