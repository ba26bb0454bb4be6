"""Titles of runs and data sets on pages and in figures."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riskmatch.report import titles
from riskmatch.report.titles import data_title, domains_title, method_title
from riskmatch.runs.config import RunConfig, variant

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMED = 3
"""Runs that differ in more settings get an id."""


def model_title(model: str, options: Mapping[str, Any]) -> str:
    """Name of a network, with a note where its backbone is frozen.

    Example:
        >>> model_title("lite0", {"frozen": True}), model_title("my_nets:Tiny", {})
        ('a head on the frozen features of lite0', 'Tiny')
    """
    name = titles.part_title(model)
    return f"a head on the frozen features of {name}" if options.get("frozen") else name


def run_title(config: RunConfig) -> str:
    """Method, data set and test domains of a run.

    Example:
        >>> run_title(RunConfig("pacs", ("sketch",), "rdm"))
        'RDM on PACS without sketch'
    """
    return _title(variant(config), config.data, config.test_domains)


def _title(variant: str, data: str, tests: Sequence[str]) -> str:
    return f"{method_title(variant)} on {data_title(data)} without {domains_title(tests)}"


def run_titles(configs: Sequence[RunConfig]) -> list[str]:
    """Titles of several runs; equal titles are followed by the settings that differ.

    Example:
        >>> one, two = (RunConfig("pacs", ("sketch",), "erm", seed=seed) for seed in (0, 1))
        >>> run_titles([one, two])
        ['ERM on PACS without sketch, seed 0', 'ERM on PACS without sketch, seed 1']
    """
    known = [(run_title(config), config.id, _settings(config)) for config in configs]
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for title, _, own in known:
        alike[title].append(own)
    unique = []
    for title, id_, own in known:
        suffix = [f"{n} {v}" for n, v in own.items() if any(o.get(n) != v for o in alike[title])]
        unique.append(", ".join([title, *(suffix if len(suffix) <= MAX_NAMED else [id_])]))
    return unique


def page_title(runs: pd.DataFrame) -> str:
    """Title of a page about runs: the title of a single run, else methods and data sets.

    Args:
        runs: one row per run, with columns as in :func:`riskmatch.results`.
    """
    if len(runs) == 1:
        ((variant, data, tests),) = runs[["variant", "data", "test_domains"]].to_numpy()
        return _title(variant, data, tests)
    names = titles.in_order(set(runs["data"]), titles.DATA)
    data = " and ".join(map(data_title, names))
    methods = set(runs["method"])
    if len(methods) == 1:
        return f"{len(runs)} runs of {method_title(methods.pop())} on {data}"
    return f"{len(methods)} methods on {data}"


def setup(configs: Iterable[RunConfig]) -> str:
    """Data sets, networks and numbers of steps of runs, for the note below a figure.

    Example:
        >>> setup([RunConfig("pacs", ("sketch",), "erm", model="lite0", steps=1000)])
        'PACS, lite0, 1000 steps.'
    """
    return _setup((c.data, c.model, c.model_options, c.steps) for c in configs)


def setup_of_frame(frame: pd.DataFrame) -> str:
    """As :func:`setup`, for the runs of a data frame of :func:`riskmatch.results`."""
    runs = frame.drop_duplicates("run")
    columns = (runs[name] for name in ("data", "model", "model_options", "steps"))
    return _setup(
        (data, model, json.loads(options), steps)
        for data, model, options, steps in zip(*columns, strict=True)
    )


def _setup(runs: Iterable[tuple[str, str, Mapping[str, Any], int]]) -> str:
    parts = dict.fromkeys(
        f"{data_title(data)}, {model_title(model, options)}, {steps} steps"
        for data, model, options, steps in runs
    )
    return "; ".join(parts) + "."


def _settings(config: RunConfig) -> dict[str, Any]:
    """All settings in one flat mapping, including hyper-parameters and options."""
    flat: dict[str, Any] = {}
    for name, value in config.to_json().items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return flat
