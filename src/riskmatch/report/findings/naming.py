"""How runs are called in a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.report import titles
from riskmatch.runs.config import RunConfig, variant

NAMED = 3
"""With more test domains a title gives their number; with more differences, an id."""


def title_of(config: RunConfig) -> str:
    """The run in a line.

    Example:
        >>> title_of(RunConfig("pacs", ("sketch",), "rdm"))
        'RDM on PACS without sketch'
    """
    method = variant(config)
    tests = config.test_domains
    without = " and ".join(tests) if len(tests) <= NAMED else f"{len(tests)} test domains"
    return f"{titles.METHODS.get(method, method)} on {data_title(config.data)} without {without}"


def data_title(data: str) -> str:
    """The name of a data set in a table; of a path, the last part.

    Example:
        >>> data_title("vlcs"), data_title("/home/me/pets"), data_title("pets.csv")
        ('VLCS', 'pets', 'pets.csv')
    """
    return titles.DATA.get(data) or Path(data).name


def titles_of(configs: Sequence[RunConfig]) -> list[str]:
    """The titles of several runs, each with what tells it from the others of the same title.

    Example:
        >>> one, two = (RunConfig("pacs", ("sketch",), "erm", seed=seed) for seed in (0, 1))
        >>> titles_of([one, two])
        ['ERM on PACS without sketch, seed 0', 'ERM on PACS without sketch, seed 1']
    """
    plain = [title_of(config) for config in configs]
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for title, config in zip(plain, configs, strict=True):
        alike[title].append(_settings(config))
    found = []
    for title, config in zip(plain, configs, strict=True):
        others, own = alike[title], _settings(config)
        different = [n for n, v in own.items() if any(o.get(n) != v for o in others)]
        told = [f"{name} {own[name]}" for name in different]
        found.append(", ".join([title, *(told if len(told) <= NAMED else [config.id])]))
    return found


def title_of_all(configs: Sequence[RunConfig]) -> str:
    """All runs in a line.

    Example:
        >>> title_of_all([RunConfig("pacs", ("sketch",), method) for method in ("erm", "rdm")])
        '2 methods on PACS'
    """
    if len(configs) == 1:
        return title_of(configs[0])
    names = titles.in_order({config.data for config in configs}, titles.DATA)
    data = " and ".join(map(data_title, names))
    methods = {config.method for config in configs}
    if len(methods) == 1:
        (method,) = methods
        return f"{len(configs)} runs of {titles.METHODS.get(method, method)} on {data}"
    return f"{len(methods)} methods on {data}"


def _settings(config: RunConfig) -> dict[str, Any]:
    """Every setting by its own name, those of the method and of options among the others."""
    found: dict[str, Any] = {}
    for name, value in config.to_json().items():
        found |= value if isinstance(value, Mapping) else {name: value}
    return found
