"""Titles of methods, data sets and runs in tables, pages and figures, and their order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from riskmatch.registry import INSTANCE
from riskmatch.runs.config import Average, RunConfig, title
from riskmatch.runs.lines import Split
from riskmatch.runs.method import part_title, stated_facts

if TYPE_CHECKING:
    import pandas as pd

DATA = {
    "vlcs": "VLCS",
    "pacs": "PACS",
    "officehome": "OfficeHome",
    "terraincognita": "TerraIncognita",
    "domainnet": "DomainNet",
    "colored-mnist": "ColoredMNIST",
    "rotated-mnist": "RotatedMNIST",
}
"""Titles by name, in the order of the paper's tables."""

MAX_NAMED = 3
"""Most settings that a title names."""


def method_title(variant: str) -> str:
    """The name of a method or variant of which no run is at hand; runs have their ``title``.

    Example:
        >>> method_title("rdm variance"), method_title("my_methods:Robust")
        ('RDM (every domain, L)', 'Robust')
        >>> method_title("rdm swad")
        'RDM + SWAD'
    """
    name, _, average = variant.rpartition(" ")
    if name and average in get_args(Average):
        return f"{method_title(name)} + {average.upper()}"
    method, _, values = variant.partition(" ")
    facts = stated_facts(method)
    return (facts.titles.get(values) if values else facts.title) or part_title(variant)


def data_title(data: str) -> str:
    """The name of a data set in tables; of a path, its last part.

    Example:
        >>> data_title("vlcs"), data_title("/home/me/pets"), data_title("vlcs, holdout 0.5")
        ('VLCS', 'pets', 'VLCS, holdout 0.5')
        >>> data_title("my_data:Pets")
        'Pets'
    """
    name, comma, options = data.partition(", ")
    return (DATA.get(name) or Path(part_title(name)).name) + comma + options


_SETTINGS = {
    **{"weight": "λ", "variance_weight": "β", "warmup": "warm-up"},
    **{"lr": "learning rate", "lr_after": "learning rate after the warm-up"},
}


def setting_title(name: str) -> str:
    """The name of a setting of a run in titles and charts.

    Example:
        >>> setting_title("weight"), setting_title("meta_lr")
        ('λ', 'meta lr')
    """
    return _SETTINGS.get(name) or name.replace("_", " ")


def part_titles(data: str, options: Container[str] = ()) -> dict[Split, str]:
    """Names of the two parts of every domain, by split.

    Training domains are trained on the first part, test domains are reported on it; the second is
    for validation. ColoredMNIST and data sets passed as objects have validation samples of their
    own, and groups differ in size, so that their parts have other shares. ``options`` are those of
    the data set.

    Example:
        >>> part_titles("pacs")
        {'train': '80 % part', 'val': '20 % part'}
    """
    if data == "colored-mnist" or data.startswith(INSTANCE) or "group" in options:
        return {"train": "main part", "val": "validation part"}
    return {"train": "80 % part", "val": "20 % part"}


def domains_title(names: Sequence[str]) -> str:
    """The names of the test domains of a run; their number if there are more than three.

    Example:
        >>> domains_title(["photo", "sketch"]), domains_title("abcd")
        ('photo and sketch', '4 test domains')
    """
    return " and ".join(names) if len(names) <= 3 else f"{len(names)} test domains"


def in_order(names: set[str], order: Iterable[str]) -> list[str]:
    """The names in an order, then those that it lacks in alphabetical order.

    Example:
        >>> in_order({"sagnet", "rdm", "erm"}, ["erm", "vrex", "rdm"])
        ['erm', 'rdm', 'sagnet']
    """
    return [name for name in order if name in names] + sorted(names - {*order})


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
    return _title(title(config), config.data, config.test_domains)


def _title(method: str, data: str, tests: Sequence[str]) -> str:
    part = f" without {domains_title(tests)}" if tests else ", all domains"
    return f"{method} on {data_title(data)}{part}"


def run_titles(configs: Sequence[RunConfig]) -> list[str]:
    """Titles of several runs; equal titles are followed by the settings that tell them apart.

    These are as few as suffice, hyper-parameters of the method first. Runs that ``MAX_NAMED``
    settings do not tell apart get their ids.

    Example:
        >>> one, two = (RunConfig("pacs", ("sketch",), "rdm", {"weight": w}) for w in (0.5, 5e3))
        >>> run_titles([one, two])
        ['RDM on PACS without sketch, λ 0.5', 'RDM on PACS without sketch, λ 5000']
    """
    by_title: dict[str, list[RunConfig]] = defaultdict(list)
    for config in configs:
        by_title[run_title(config)].append(config)
    titles = {}
    for name, alike in by_title.items():
        differing = _distinguishing_settings([_settings(config) for config in alike])
        for config, parts in zip(alike, differing, strict=True):
            titles[config.id] = ", ".join([name, *([config.id] if parts is None else parts)])
    return [titles[config.id] for config in configs]


def _distinguishing_settings(runs: Sequence[Mapping[str, Any]]) -> list[list[str] | None]:
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
        ((method, data, tests),) = runs[["title", "data", "test_domains"]].to_numpy()
        return _title(method, data, tests)
    names = in_order(set(runs["data"]), DATA)
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
