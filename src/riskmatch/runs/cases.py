"""Runs as cases: what a selection rule chooses for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import results_of
from riskmatch.runs.records import RunRecord

CASE = ["data", "model", "variant", "test_domain", "trial"]
"""The columns that identify a case."""


def cases(frame: pd.DataFrame, plan: Iterable[RunConfig] = ()) -> pd.DataFrame:
    """Runs as the cases that rules choose for: a row per run and test domain.

    - **Test domains.** A run with several test domains is a case of each, where all runs that test
      one of them hold out the same domains (ColoredMNIST at every colour, domains left out
      together). Else it serves ``leave-one-out`` alone, and its ``test_domain`` is missing.
    - **Trials.** Replicates are told apart by their trial. Seeds, of the run and of the data set,
      stand for trials where runs differ in nothing else; then trials and seeds together are
      numbered from 0. Draws with seeds of their own, as DomainBed's, stay draws.
    - **Initialisation.** Where runs of a method start from ERM (``pretrain``) and others do not,
      those that do are runs of another network: ``ERM-initialised mlp``.
    - **Data.** Runs on a data set with other options are runs on another data set, named after the
      options in which they differ from most: ``colored-mnist, p [0.5]``.

    Args:
        frame: a data frame of :func:`riskmatch.results`.
        plan: the runs that a sweep should have. Those that ``frame`` lacks have the status
            ``planned``.

    Returns:
        The columns of ``CASE``; ``own_data`` and ``own_trial``, as the run has them; ``number``,
        DomainBed's ``hparams_seed``; ``place``, the rank of the run by its hyper-parameters; and of
        :func:`riskmatch.results` ``run``, ``test_domains``, ``domains``, ``method``, ``seed``,
        ``title``, ``plain``, ``draw``, ``acts_from``, ``shared_groups``, ``fit``, ``no_gradient``,
        ``status``,
        ``steps``, ``pretrain``, ``average``, ``task``, ``metric``, ``data_options`` and
        ``model_options``.
    """
    check_columns(frame, [*_KEPT, *_RANKED])
    runs = frame.drop_duplicates("run", ignore_index=True)
    known = set(runs["run"])
    missing = [config for config in plan if config.id not in known]
    if missing:
        planned = results_of(map(RunRecord, missing)).runs.assign(status="planned")
        planned = planned.assign(task=None, metric=None)
        runs = pd.concat([runs, planned], ignore_index=True)
    numbers = runs.get("hparams/hparams_seed", pd.Series(np.nan, runs.index))
    table = runs[_KEPT].assign(
        number=pd.to_numeric(numbers, errors="coerce"),
        own_data=runs["data"],
        own_trial=runs["trial"],
        data=_data(runs),
        model=_models(runs),
        trial=_trials(runs),
        place=_places(runs),
    )
    several = table["test_domains"].map(len) > 1
    table["test_domain"] = table["test_domains"].where(~(several & _apart(table)))
    return table.explode("test_domain", ignore_index=True)


_KEPT = [
    *("run", "data", "model", "method", "variant", "test_domains", "domains", "trial", "seed"),
    *("title", "plain", "draw", "acts_from", "fit", "status", "steps", "pretrain", "average"),
    *("no_gradient", "task", "metric", "data_options", "model_options", "shared_groups"),
]
_RANKED = ["lr", "batch_size", "weight_decay", "dropout"]


def check_columns(frame: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise ``ValueError`` unless a data frame has these columns of :func:`riskmatch.results`."""
    if missing := [name for name in names if name not in frame]:
        raise ValueError(
            f"The frame lacks the column {missing[0]!r}: take all columns of riskmatch.results."
        )


def _apart(table: pd.DataFrame) -> pd.Series[bool]:
    """Whether a test domain of a run is also tested by runs that hold out other domains with it."""
    each = table.assign(held_out=table["test_domains"].map(frozenset)).explode("test_domains")
    different = each.groupby(["data", "test_domains"])["held_out"].transform("nunique") > 1
    return different.groupby(level=0).any()


def _trials(runs: pd.DataFrame) -> pd.Series[int]:
    """The trial of every run, with seeds in place of trials where runs differ in nothing else."""
    data_seeds = (_split(options)[1] for options in runs["data_options"])
    seeds = pd.Series(list(zip(runs["seed"], data_seeds, strict=True)), runs.index, dtype=object)
    trials, alike = runs["trial"].copy(), [runs["draw"], runs["test_domains"], runs["trial"]]
    for data, telling in seeds[seeds.groupby(alike).transform("nunique") > 1].groupby(runs["data"]):
        here = seeds[runs["data"] == data]
        here = here.where(
            here.isin(set(telling)), pd.Series([min(telling)] * len(here), here.index)
        )
        trials[here.index] = here.groupby([trials[here.index], here]).ngroup()
    return trials


def _places(runs: pd.DataFrame) -> pd.Series[int]:
    """The rank of every run by its hyper-parameters, numbers by size and others by their text.

    Of runs that differ in their number of steps alone, the shortest is first.
    """
    names = _RANKED + sorted(str(name) for name in runs if str(name).startswith("hparams/"))
    names.append("steps")
    keys = runs[[*names, "run"]].apply(
        lambda column: column if is_numeric_dtype(column) else column.astype(str)
    )
    return pd.Series(range(len(runs)), keys.sort_values([*names, "run"]).index)


def _models(runs: pd.DataFrame) -> pd.Series[str]:
    """The network of every run, with its initialisation where both are on the data set."""
    started = runs["pretrain"] > 0
    both = started.groupby([runs["data"], runs["variant"]]).transform("nunique") > 1
    separate = started & runs["data"].isin(runs.loc[both, "data"])
    return runs["model"].where(~separate, "ERM-initialised " + runs["model"])


def _data(runs: pd.DataFrame) -> list[str]:
    """The name of every run's data set, with the options in which it differs from most runs."""
    options = runs["data_options"].map(lambda text: _split(text)[0])
    usual = {}
    for data, texts in options.groupby(runs["data"]):
        counts = texts.value_counts(sort=False)
        usual[data] = json.loads(max(counts.index, key=lambda text: (counts[text], -len(text))))
    return [
        _named(data, json.loads(text), usual[data])
        for data, text in zip(runs["data"], options, strict=True)
    ]


def _named(data: str, options: dict[str, object], usual: dict[str, object]) -> str:
    names = sorted(n for n in {*options, *usual} if options.get(n) != usual.get(n))
    return ", ".join([data, *(f"{name} {options.get(name, 'as usual')}" for name in names)])


@cache
def _split(options: str) -> tuple[str, int]:
    """The options of a data set without its seed, and the seed."""
    values = json.loads(options)
    seed = values.pop("seed", 0)
    return json.dumps(values, sort_keys=True), seed
