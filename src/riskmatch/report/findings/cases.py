"""Runs as selection reads them: one test domain each, replicates as trials, data by name.

Selection asks for runs with one test domain and tells replicates by their trial. People also train
with several test domains at once (ColoredMNIST at every colour), with seeds in place of trials, and
on one data set with other options. Such runs are read here as what they are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from riskmatch.config import RunConfig
from riskmatch.records import Evaluation, RunRecord
from riskmatch.report import titles
from riskmatch.report.findings.runs import Found, RunOnFile

_SEED = "seed"


@dataclass(frozen=True)
class Cases:
    """The runs of a report, ready for selection."""

    records: tuple[RunRecord, ...]
    plan: tuple[RunConfig, ...]
    origin: dict[str, RunOnFile]
    """The run on file that a record is read from, by the id of the record."""

    @classmethod
    def of(cls, found: Found) -> Cases:
        """The cases of all runs."""
        configs = [*(run.config for run in found.runs), *found.plan]
        reading = _Reading(configs)
        records, origin = [], {}
        for run in found.runs:
            for record in reading.records(run.record):
                records.append(record)
                origin[record.config.id] = run
        plan = tuple(case for config in found.plan for case in reading.configs(config))
        return cls(tuple(records), plan, origin)

    @property
    def data(self) -> list[str]:
        """The data sets, in the order of tables."""
        return titles.in_order({record.config.data for record in self.records}, titles.DATA)

    def of_run(self, run: RunOnFile) -> list[RunRecord]:
        """The cases of one run."""
        return [r for r in self.records if self.origin[r.config.id] is run]


class _Reading:
    """How configurations are read, which depends on all there are."""

    def __init__(self, configs: Iterable[RunConfig]) -> None:
        self._alone = set()
        self._options: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        replicates: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
        found = list(configs)
        names = {name for config in found for name in config.data_options} - {_SEED}
        for config in found:
            if len(config.test_domains) == 1:
                self._alone.add(config.data)
            for name in names:
                self._options[config.data][name].add(_told(config, name))
            replicates[config.data].add(_replicate(config))
        self._trials = {data: _numbered(found) for data, found in replicates.items()}

    def configs(self, config: RunConfig) -> list[RunConfig]:
        """The configuration, once for each test domain where all runs have several."""
        read = replace(
            config,
            data=self._data(config),
            data_options={},
            trial=self._trials[config.data][_replicate(config)],
        )
        if config.data in self._alone:
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

    def _data(self, config: RunConfig) -> str:
        """The name of the data set, with the options in which runs on it differ."""
        varied = {n for n, values in self._options[config.data].items() if len(values) > 1}
        told = [f"{name} {_told(config, name)}" for name in sorted(varied)]
        title = titles.DATA.get(config.data, config.data)
        return f"{title}, {', '.join(told)}" if told else config.data


def _told(config: RunConfig, name: str) -> str:
    options = config.data_options
    return json.dumps(options[name]) if name in options else "as usual"


def _replicate(config: RunConfig) -> tuple[Any, ...]:
    """What tells a run from its replicates."""
    return config.trial, config.seed, config.data_options.get(_SEED, 0)


def _numbered(replicates: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """The trial of each; those that runs have already, where they tell all replicates apart."""
    ordered = sorted(replicates)
    if len({trial for trial, *_ in ordered}) == len(ordered):
        return {replicate: replicate[0] for replicate in ordered}
    return {replicate: number for number, replicate in enumerate(ordered)}


def _without(evaluation: Evaluation, domains: set[str]) -> Evaluation:
    kept = {name: score for name, score in evaluation.scores.items() if name not in domains}
    return replace(evaluation, scores=kept)
