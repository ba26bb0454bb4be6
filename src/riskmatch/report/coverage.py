"""How a table was made: the rule, how many draws and trials, and what one should know of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from riskmatch.report.gaps import missing, place_of
from riskmatch.report.selected import RowKey, Selected
from riskmatch.runs.config import RunConfig, variant
from riskmatch.selection import EXPLAINED, by_case, redrawn

ALIKE = {"steps": "steps", "data_options": "data options", "model_options": "model options"}
"""What no search draws, so that the runs of a choice should have it in common."""


def how(selected: Selected) -> str:
    """The sentences that every table carries."""
    sentences = [
        f"Selection {selected.rule}: the best of {EXPLAINED[selected.rule]}; {draws(selected)}.",
        f"Network: {', '.join(selected.models)}." if selected.models else "",
        _listed("Chosen among runs that differ in more than their draw", _unlike(selected)),
        _listed("Missing", missing(selected)),
        _listed("Nothing to choose from", _unchosen(selected)),
        _listed("Not finished, and counted with the steps they have", _unfinished(selected)),
    ]
    return " ".join(filter(None, sentences))


def draws(selected: Selected) -> str:
    """How many draws and trials there were to choose from, and whether trials redraw.

    Methods are named where they differ in that.
    """
    if not by_case(selected.runs):
        return "no run has one test domain alone"
    counts: dict[RowKey, set[int]] = defaultdict(set)
    trials: dict[RowKey, set[int]] = defaultdict(set)
    for choice in selected.choices:
        key = RowKey(choice.case.method, choice.case.model)
        counts[key].add(choice.draws)
        trials[key].add(choice.case.trial)
    if not counts:
        return "no draw that it could choose"
    sizes = {key: _size(sorted(own), len(trials[key])) for key, own in counts.items()}
    kinds = {key: _kind(selected, key) for key, own in trials.items() if len(own) > 1}
    return "; ".join([*_told(selected, sizes), *_told(selected, kinds, among=sizes)])


def _size(counts: list[int], trials: int) -> str:
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    draws = f"{span} draw{'s' * (counts[-1] != 1)}"
    return f"{draws}, one trial" if trials == 1 else f"{draws} in each of {trials} trials"


def _kind(selected: Selected, key: RowKey) -> str:
    configs = (c for c in selected.configs if RowKey(variant(c), c.model) == key)
    anew = redrawn(config for config in configs if len(config.test_domains) == 1)
    return {
        True: "trials draw hyper-parameters anew",
        False: "trials are replicates with the same hyper-parameters",
        None: "",
    }[anew]


def _told(
    selected: Selected, phrases: dict[RowKey, str], among: Iterable[RowKey] | None = None
) -> list[str]:
    """Each phrase once, with the methods it holds for unless it holds for all."""
    rows = [key for key in selected.rows if key in set(among or phrases)]
    holding = {
        phrase: [key for key in rows if phrases.get(key) == phrase]
        for phrase in dict.fromkeys(phrases[key] for key in rows if phrases.get(key))
    }
    return [
        phrase if keys == rows else f"{phrase} ({', '.join(map(selected.label, keys))})"
        for phrase, keys in holding.items()
    ]


def _unlike(selected: Selected) -> list[str]:
    found: dict[str, dict[str, None]] = {}
    for case, members in sorted(by_case(selected.runs).items()):
        for field, title in ALIKE.items():
            if len({_value(run.config, field) for run in members}) > 1:
                label = selected.label(RowKey(case.method, case.model))
                found.setdefault(title, {})[label] = None
    return [f"{title} ({', '.join(labels)})" for title, labels in found.items()]


def _value(config: RunConfig, field: str) -> Hashable:
    return str(config.to_json()[field])


def _unchosen(selected: Selected) -> list[str]:
    chosen = {choice.case for choice in selected.choices}
    return [
        f"{selected.label(RowKey(case.method, case.model))} on {case.domain}, trial {case.trial}"
        for case in sorted(by_case(selected.runs))
        if case not in chosen
    ]


def _unfinished(selected: Selected) -> list[str]:
    found = Counter(place_of(selected, run.config) for run in selected.runs if run.status != "done")
    return [
        f"{place.row} on {place.domains}, trial {place.trial}" + (f" ({n} runs)" if n > 1 else "")
        for place, n in sorted(found.items())
    ]


def _listed(title: str, phrases: list[str]) -> str:
    return f"{title}: {'; '.join(phrases)}." if phrases else ""
