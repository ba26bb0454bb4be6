"""Titles of runs and data sets on pages and in figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.registry import is_own
from riskmatch.report import titles
from riskmatch.runs.config import RunConfig, variant

MAX_NAMED = 3
"""More test domains are counted instead of named; runs that differ in more settings get an id."""


def method_title(method: str) -> str:
    """Title of a method or variant; the class name for ``package.module:Name``.

    Example:
        >>> method_title("rdm variance"), method_title("my_methods:Robust worst")
        ('RDM (every domain, L)', 'Robust worst')
    """
    return titles.METHODS.get(method) or _part_title(method)


def data_title(data: str) -> str:
    """Title of a data set: of a path the last component, of ``package.module:Name`` the name.

    Example:
        >>> data_title("vlcs"), data_title("/home/me/pets"), data_title("my_data:Pets")
        ('VLCS', 'pets', 'Pets')
    """
    return titles.DATA.get(data) or (_part_title(data) if is_own(data) else Path(data).name)


def model_title(model: str, options: Mapping[str, Any]) -> str:
    """Name of a network, with a note where its backbone is frozen.

    Example:
        >>> model_title("lite0", {"frozen": True}), model_title("my_nets:Tiny", {})
        ('a head on the frozen features of lite0', 'Tiny')
    """
    name = _part_title(model)
    return f"a head on the frozen features of {name}" if options.get("frozen") else name


def run_title(config: RunConfig) -> str:
    """Method, data set and test domains of a run.

    Example:
        >>> run_title(RunConfig("pacs", ("sketch",), "rdm"))
        'RDM on PACS without sketch'
    """
    tests = config.test_domains
    without = " and ".join(tests) if len(tests) <= MAX_NAMED else f"{len(tests)} test domains"
    return f"{method_title(variant(config))} on {data_title(config.data)} without {without}"


def run_titles(configs: Sequence[RunConfig]) -> list[str]:
    """Titles of several runs; runs with the same title are told apart by the settings that differ.

    Example:
        >>> one, two = (RunConfig("pacs", ("sketch",), "erm", seed=seed) for seed in (0, 1))
        >>> run_titles([one, two])
        ['ERM on PACS without sketch, seed 0', 'ERM on PACS without sketch, seed 1']
    """
    titled = [run_title(config) for config in configs]
    settings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for title, config in zip(titled, configs, strict=True):
        settings[title].append(_settings(config))
    unique = []
    for title, config in zip(titled, configs, strict=True):
        own = _settings(config)
        different = [n for n, v in own.items() if any(o.get(n) != v for o in settings[title])]
        suffix = [f"{name} {own[name]}" for name in different]
        unique.append(", ".join([title, *(suffix if len(suffix) <= MAX_NAMED else [config.id])]))
    return unique


def page_title(configs: Sequence[RunConfig]) -> str:
    """Title of a page about several runs.

    Example:
        >>> page_title([RunConfig("pacs", ("sketch",), method) for method in ("erm", "rdm")])
        '2 methods on PACS'
    """
    if len(configs) == 1:
        return run_title(configs[0])
    names = titles.in_order({config.data for config in configs}, titles.DATA)
    data = " and ".join(map(data_title, names))
    methods = {config.method for config in configs}
    if len(methods) == 1:
        return f"{len(configs)} runs of {method_title(methods.pop())} on {data}"
    return f"{len(methods)} methods on {data}"


def setup(configs: Iterable[RunConfig]) -> str:
    """Data sets, networks and numbers of steps of runs, for the note below a figure.

    Example:
        >>> setup([RunConfig("pacs", ("sketch",), "erm", model="lite0", steps=1000)])
        'PACS, lite0, 1000 steps.'
    """
    parts = dict.fromkeys(
        f"{data_title(c.data)}, {model_title(c.model, c.model_options)}, {c.steps} steps"
        for c in configs
    )
    return "; ".join(parts) + "."


def _part_title(name: str) -> str:
    """``Name`` of ``package.module:Name``, with whatever follows it; other names unchanged."""
    part, space, rest = name.partition(" ")
    return f"{part.rpartition(':')[2]}{space}{rest}" if is_own(part) else name


def _settings(config: RunConfig) -> dict[str, Any]:
    """All settings in one flat mapping, including hyper-parameters and options."""
    flat: dict[str, Any] = {}
    for name, value in config.to_json().items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return flat
