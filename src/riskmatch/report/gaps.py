"""Which runs of a table are missing, in as few phrases as say it all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from riskmatch.report.selected import RowKey, Selected
from riskmatch.runs.config import RunConfig, variant

FEW = 3
"""Runs that are named one by one, at most."""


class Place(NamedTuple):
    """Where a run belongs."""

    row: str
    """The label of its row."""
    domains: str
    """Those held out."""
    trial: int


def place_of(selected: Selected, config: RunConfig) -> Place:
    """Where a run belongs in a table."""
    row = selected.label(RowKey(variant(config), config.model))
    return Place(row, " and ".join(config.test_domains), config.trial)


def missing(selected: Selected) -> list[str]:
    """What is missing, each in a phrase.

    That is known from the plan, run by run. Where there is none, every test domain and trial of a
    method should have as many draws as the one with the most, and for ``leave-one-out`` so should
    every pair of domains.
    """
    found = Counter(place_of(selected, run.config) for run in selected.runs)
    if selected.plan:
        there, names = {run.config.id for run in selected.runs}, defaultdict(list)
        for config in selected.plan:
            if config.id not in there:
                names[place_of(selected, config)].append(config.id)
        return gaps(Counter(place_of(selected, c) for c in selected.plan), found, names)
    held_out: list[tuple[str, ...]] = [(domain,) for domain in selected.domains]
    if selected.rule == "leave-one-out":
        held_out += combinations(selected.domains, 2)
    sought = {" and ".join(domains) for domains in held_out}
    expected: Counter[Place] = Counter()
    most: dict[str, int] = defaultdict(int)
    trials: dict[str, set[int]] = defaultdict(set)
    for place, n in found.items():
        if place.domains in selected.domains:
            most[place.row] = max(most[place.row], n)
            trials[place.row].add(place.trial)
    for row, n in most.items():
        for domains in held_out:
            name = " and ".join(domains)
            expected.update({Place(row, name, trial): n for trial in trials[row]})
    return gaps(expected, {place: n for place, n in found.items() if place.domains in sought})


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
                f"{_named((names or {}).get(place, ()))}"
                for place, n in sorted(here.items())
                if found.get(place, 0) < n
            ]
    return phrases


def _named(ids: Iterable[str]) -> str:
    known = list(ids)
    return f" ({', '.join(known[:FEW])}{' …' * (len(known) > FEW)})" if known else ""


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
