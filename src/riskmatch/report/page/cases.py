"""Runs as selection reads them: one test domain each, replicates as trials, data by name.

Selection asks for runs with one test domain and tells replicates by their trial. People also train
with several test domains at once (ColoredMNIST at every colour), with seeds in place of trials, and
on one data set with other options. Such runs are read here as what they are. Seeds stand for trials
only where runs differ in nothing else: DomainBed gives every run a seed of its own, and its draws
stay draws.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from riskmatch.report import titles
from riskmatch.report.naming import data_title
from riskmatch.report.page.runs import RunSet, StoredRun
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import Evaluation, RunRecord
from riskmatch.selection import domains_of

_SEED = "seed"
Seeds = tuple[int, int]
"""Of the run, and of its data set."""
Replicate = tuple[int, Seeds]
"""The trial, and the seeds that tell it from other replicates."""


@dataclass(frozen=True)
class Cases:
    """The runs of a report, ready for selection."""

    records: tuple[RunRecord, ...]
    plan: tuple[RunConfig, ...]
    origin: dict[str, StoredRun]
    """The run on file that a record is read from, by the id of the record."""
    renumbered: bool
    """Whether trials stand for trials and seeds together."""

    @classmethod
    def of(cls, found: RunSet) -> Cases:
        """The cases of all runs."""
        configs = [*(run.config for run in found.runs), *found.plan]
        reading = _Reading(configs, _apart([run.record for run in found.runs]))
        records, origin = [], {}
        for run in found.runs:
            for record in reading.records(run.record):
                records.append(record)
                origin[record.config.id] = run
        plan = tuple(case for config in found.plan for case in reading.configs(config))
        changed = any(case.config.trial != origin[case.config.id].config.trial for case in records)
        return cls(tuple(records), plan, origin, changed)

    @property
    def data(self) -> list[str]:
        """The data sets, in the order of tables."""
        return titles.in_order({record.config.data for record in self.records}, titles.DATA)

    @property
    def main_data(self) -> list[str]:
        """The data sets, each only with the options that most runs on it have."""
        known = {run.config.data for run in self.origin.values()}
        return [name for name in self.data if name in known]

    def of_run(self, run: StoredRun) -> list[RunRecord]:
        """The cases of one run."""
        return [r for r in self.records if self.origin[r.config.id] is run]


class _Reading:
    """How configurations are read, which depends on all there are."""

    def __init__(self, configs: Sequence[RunConfig], apart: set[str]) -> None:
        alone = {config.data for config in configs if len(config.test_domains) == 1}
        self._whole = alone | apart
        self._seeds = _telling_seeds(configs)
        options: dict[str, Counter[str]] = defaultdict(Counter)
        replicates: dict[str, set[Replicate]] = defaultdict(set)
        for config in configs:
            options[config.data][_options(config)] += 1
            replicates[config.data].add(self._replicate(config))
        self._usual = {data: json.loads(_most(count)) for data, count in options.items()}
        self._trials = {data: _numbered(found) for data, found in replicates.items()}

    def configs(self, config: RunConfig) -> list[RunConfig]:
        """The configuration, once for each test domain where all runs have several.

        Not where runs with a test domain in common train on different domains, as those that serve
        leave-one-out: nothing may be chosen among them.
        """
        read = replace(
            config,
            data=self._data(config),
            data_options={},
            trial=self._trials[config.data][self._replicate(config)],
        )
        if config.data in self._whole:
            return [read]
        return [replace(read, test_domains=(domain,)) for domain in config.test_domains]

    def records(self, run: RunRecord) -> list[RunRecord]:
        """The run, once for each test domain where all runs have several."""
        found = []
        for config in self.configs(run.config):
            others = set(run.config.test_domains) - set(config.test_domains)
            seen = run.evaluations
            if others:
                seen = tuple(_without(evaluation, others) for evaluation in seen)
            found.append(replace(run, config=config, evaluations=seen))
        return found

    def _replicate(self, config: RunConfig) -> Replicate:
        """Seeds that tell nothing count as the first that does."""
        seeds, telling = _seeds(config), self._seeds[config.data]
        return config.trial, seeds if seeds in telling else min(telling, default=(0, 0))

    def _data(self, config: RunConfig) -> str:
        """The name of the data set, with the options in which the run differs from most."""
        own, usual = json.loads(_options(config)), self._usual[config.data]
        if own == usual:
            return config.data
        names = sorted(name for name in {*own, *usual} if own.get(name) != usual.get(name))
        told = [f"{name} {own.get(name, 'as usual')}" for name in names]
        return ", ".join([data_title(config.data), *told])


def _apart(runs: Sequence[RunRecord]) -> set[str]:
    """The data sets on which runs with a test domain in common train on different domains."""
    trained: dict[tuple[str, str, str], set[frozenset[str]]] = defaultdict(set)
    for run in runs:
        tests = run.config.test_domains
        for domain in tests if run.evaluations else ():
            training = frozenset(domains_of(run)).difference(tests)
            trained[run.config.data, _options(run.config), domain].add(training)
    return {data for (data, _, _), found in trained.items() if len(found) > 1}


def _options(config: RunConfig) -> str:
    """The options of the data set, but for the seed."""
    kept = {name: value for name, value in config.data_options.items() if name != _SEED}
    return json.dumps(kept, sort_keys=True)


def _most(options: Counter[str]) -> str:
    """Those of most runs; of equals the fewest."""
    return max(options, key=lambda found: (options[found], -len(found)))


def _seeds(config: RunConfig) -> Seeds:
    return config.seed, config.data_options.get(_SEED, 0)


def _telling_seeds(configs: Sequence[RunConfig]) -> dict[str, set[Seeds]]:
    """By data set, the seeds in which runs differ that are alike in all else."""
    alike: dict[tuple[str, str], set[Seeds]] = defaultdict(set)
    for config in configs:
        options = {**config.data_options, _SEED: 0}
        same = replace(config, seed=0, data_options=options)
        alike[config.data, same.id].add(_seeds(config))
    telling: dict[str, set[Seeds]] = defaultdict(set)
    for (data, _), seeds in alike.items():
        telling[data] |= seeds if len(seeds) > 1 else set()
    return telling


def _numbered(replicates: set[Replicate]) -> dict[Replicate, int]:
    """The trial of each; those that runs have already, where they tell all replicates apart."""
    ordered = sorted(replicates)
    if len({trial for trial, _ in ordered}) == len(ordered):
        return {replicate: replicate[0] for replicate in ordered}
    return {replicate: number for number, replicate in enumerate(ordered)}


def _without(evaluation: Evaluation, domains: set[str]) -> Evaluation:
    kept = {name: score for name, score in evaluation.scores.items() if name not in domains}
    return replace(evaluation, scores=kept)
