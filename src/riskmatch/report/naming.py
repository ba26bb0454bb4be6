"""Titles of runs and data sets on pages and in figures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riskmatch.report import titles
from riskmatch.report.titles import data_title, domains_title, method_title, setting_title
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.method import part_title

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMED = 3
"""Most settings that a title names."""


def model_title(model: str, options: Mapping[str, Any]) -> str:
    """Name of a network, with a note where its backbone is frozen.

    Example:
        >>> model_title("lite0", {"frozen": True}), model_title("my_nets:Tiny", {})
        ('a head on the frozen features of lite0', 'Tiny')
    """
    name = part_title(model)
    return f"a head on the frozen features of {name}" if options.get("frozen") else name


def run_title(config: RunConfig) -> str:
    """Method, data set and test domains of a run.

    Example:
        >>> run_title(RunConfig("pacs", ("sketch",), "rdm"))
        'RDM on PACS without sketch'
        >>> run_title(RunConfig("pacs", (), "rdm"))
        'RDM on PACS, all domains'
    """
    return _title(variant(config), config.data, config.test_domains)


def _title(variant: str, data: str, tests: Sequence[str]) -> str:
    part = f" without {domains_title(tests)}" if tests else ", all domains"
    return f"{method_title(variant)} on {data_title(data)}{part}"


def run_titles(configs: Sequence[RunConfig]) -> list[str]:
    """Titles of several runs; equal titles are followed by the settings that tell them apart.

    These are as few as suffice, hyper-parameters of the method first. Runs that ``MAX_NAMED``
    settings do not tell apart get their ids.

    Example:
        >>> one, two = (RunConfig("pacs", ("sketch",), "rdm", {"weight": w}) for w in (0.5, 5e3))
        >>> run_titles([one, two])
        ['RDM on PACS without sketch, λ 0.5', 'RDM on PACS without sketch, λ 5000']
    """
    alike: dict[str, list[RunConfig]] = defaultdict(list)
    for config in configs:
        alike[run_title(config)].append(config)
    titles = {}
    for title, own in alike.items():
        for config, parts in zip(own, _told_apart([_settings(c) for c in own]), strict=True):
            titles[config.id] = ", ".join([title, *([config.id] if parts is None else parts)])
    return [titles[config.id] for config in configs]


def _told_apart(runs: Sequence[Mapping[str, Any]]) -> list[list[str] | None]:
    """Of each run the settings that tell it apart from the others; None where they do not."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    differing = [n for n in names if len({json.dumps(run.get(n)) for run in runs}) > 1]
    shown: list[list[str]] = [[] for _ in runs]
    for name in differing[:MAX_NAMED]:
        if len(set(map(tuple, shown))) == len(runs):
            break
        for parts, run in zip(shown, runs, strict=True):
            if name in run:
                parts.append(
                    f"{setting_title(name)} {_value(run[name], [r.get(name) for r in runs])}"
                )
    counts = Counter(map(tuple, shown))
    return [parts if counts[tuple(parts)] == 1 else None for parts in shown]


def _value(value: Any, others: Sequence[Any]) -> str:
    """A value in three significant digits, or in all that tell it from the others."""
    if not isinstance(value, float):
        return str(value)
    short = float(f"{value:.3g}")
    clash = any(isinstance(o, float) and o != value and float(f"{o:.3g}") == short for o in others)
    return str(value) if clash else f"{short:g}"  # 5000, not 5e+03


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
        >>> setup([RunConfig("pacs", ("sketch",), "erm", model="lite0", patience=5)])
        'PACS, lite0, at most 5000 steps.'
    """
    return _setup(
        (c.data, c.model, c.model_options, f"{'at most ' * bool(c.patience)}{c.steps}")
        for c in configs
    )


def setup_of_frame(frame: pd.DataFrame) -> str:
    """As :func:`setup`, for the runs of a data frame of :func:`riskmatch.results`."""
    runs = frame.drop_duplicates("run")
    columns = (runs[name] for name in ("data", "model", "model_options", "steps"))
    return _setup(
        (data, model, json.loads(options), str(steps))
        for data, model, options, steps in zip(*columns, strict=True)
    )


def _setup(runs: Iterable[tuple[str, str, Mapping[str, Any], str]]) -> str:
    parts = dict.fromkeys(
        f"{data_title(data)}, {model_title(model, options)}, {steps} steps"
        for data, model, options, steps in runs
    )
    return "; ".join(parts) + "."


def _settings(config: RunConfig) -> dict[str, Any]:
    """All settings in one flat mapping: hyper-parameters, then seeds, then the others."""
    values = config.to_json()
    flat = {name: values[name] for name in ("trial", "seed")}
    flat = {**values.pop("hparams"), **flat}
    for name, value in values.items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return flat
