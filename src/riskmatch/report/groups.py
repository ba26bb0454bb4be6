"""The metric by group of samples, where groups are the values of columns of the data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import printable
from riskmatch.metrics import Metric, find_metric
from riskmatch.registry import INSTANCE
from riskmatch.report.facts import lines
from riskmatch.report.samples import DataCache, predictions_at
from riskmatch.report.selected import PageRuns, RowKey, Selected
from riskmatch.report.tables import ERROR, MISSING, Cell, Table
from riskmatch.report.titles import data_title, part_titles
from riskmatch.runs import records
from riskmatch.runs.lines import Split
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import StoredRun

if TYPE_CHECKING:
    from riskmatch.data.domain import Domain
    from riskmatch.runs.config import RunConfig

FEWEST = 10
"""Samples from which on a group is ranked."""
_NAMED = 12
"""Most groups that a caption names."""


@dataclass(frozen=True)
class Groups:
    """The group of every sample of a data set."""

    domains: Mapping[str, Domain]
    """Domains whose inputs are the positions of the samples."""
    names: Mapping[str, NDArray[Any]]
    """(n,) name of the group of each sample, by domain."""

    @classmethod
    def read(cls, config: RunConfig, by: Sequence[str], data_dir: Path | None = None) -> Groups:
        """The groups of the data of a run, by their values of the columns ``by``.

        Raises:
            ValueError: the data have no columns, or none of these names.
            OSError: they cannot be read.
        """
        import torch

        from riskmatch import data
        from riskmatch.data.catalogue import resolve
        from riskmatch.data.images.manifest import column_texts
        from riskmatch.data.table import TableDomains

        source = None if config.data.startswith(INSTANCE) else resolve(config.data)
        path = None if source is None else source.path
        if source is None or path is None or path.is_dir() or source.contents == "features":
            raise ValueError(
                f"{data_title(config.data)} has no columns: groups of samples are those of a table "
                "in a file, or of a list of images."
            )
        if source.contents == "images":
            from riskmatch.data.images.cache import index_domains

            index = source.index(data_dir, config.data_options)
            values = {row[0]: row[1:] for row in column_texts(path, ("path", *by))}
            texts = [values[name] for name in index.paths]
            domains = {domain.name: domain for domain in index_domains(index)}
            places = np.array(index.domains)
            rows = {name: np.flatnonzero(places == k) for k, name in enumerate(index.domain_names)}
        else:
            table = data.load(config.data, config.data_options, data_dir)
            assert isinstance(table, TableDomains)
            texts = column_texts(path, by)
            domains = {domain.name: domain for domain in table.domains}
            rows = {name: numbers.numpy() - 1 for name, numbers in table.rows.items()}
        named = np.array([", ".join(printable(t) or MISSING for t in row) for row in texts], object)
        return cls(
            {k: replace(v, x=torch.arange(len(v))) for k, v in domains.items()},
            {name: named[numbers] for name, numbers in rows.items()},
        )

    def of(
        self, config: RunConfig, domain: str, part: Split, predicted: Predictions
    ) -> NDArray[Any]:
        """(n,) the group of each sample that a run predicted.

        Raises:
            ValueError: the labels of the samples differ: the data have changed.
        """
        import torch

        from riskmatch.data.splits import splits

        domains = list(self.domains.values())
        parts = splits(domains, config.trial, config.test_domains, config.split)
        samples = parts[domain][part]
        changed = len(samples) <= predicted.index.max(initial=-1)
        if not changed:
            samples = samples.take(torch.tensor(predicted.index))
            labels = samples.y.numpy()
            changed = not np.allclose(labels, predicted.label, rtol=1e-4, equal_nan=True)
        if changed:
            raise ValueError(
                f"The data have changed since the run {config.id}, in {domain}. Train it again."
            )
        names: NDArray[Any] = self.names[domain][samples.x[:].numpy()]
        return names


@dataclass(frozen=True)
class GroupScores:
    """The metric of the chosen runs of a method in a group, of the trials that have it."""

    samples: tuple[int, ...]
    """Samples by trial."""
    values: tuple[float, ...]
    """The metric by trial in the unit of tables, where it can be computed."""
    reason: str = ""
    """Why a metric is missing."""

    @property
    def ranked(self) -> bool:
        """Whether every trial has enough samples and a value."""
        return min(self.samples) >= FEWEST and not self.reason


@dataclass(frozen=True)
class MethodGroups:
    """The groups of the samples of test domains, as the chosen runs of a method predict them."""

    scores: Mapping[str, GroupScores]
    samples: tuple[int, ...]
    """Samples of every trial."""
    late: int
    """Chosen runs that are shown at their last step, as nothing is stored of the chosen one."""
    runs: int

    def ranked(self, selected: Selected) -> list[tuple[str, float]]:
        """Groups with the means of their trials, worst first."""
        sign = 1 if selected.facts.higher else -1
        means = {name: fmean(one.values) for name, one in self.scores.items() if one.ranked}
        return sorted(means.items(), key=lambda pair: sign * pair[1])


def method_groups(
    selected: Selected, key: RowKey, by: Sequence[str], data: DataCache
) -> MethodGroups:
    """The metric of the chosen runs of a method by group of samples.

    A trial pools the samples of all its test domains, each predicted by the run that held it out.

    Raises:
        ValueError: the data have no such column, or have changed.
        OSError: a run stored neither predictions nor a checkpoint.
    """
    metric, chosen = find_metric(selected.metric), selected.part(key, selected.chosen)
    folders = selected.results.runs.set_index("run")["folder"]
    samples: dict[str, list[int]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    reasons: dict[str, str] = {}
    late, totals, stored = 0, list[int](), dict[str, StoredRun]()
    for _, rows in chosen.groupby("trial"):
        parts, names = list[Predictions](), list[NDArray[Any]]()
        for id, step, domain in zip(rows["run"], rows["step"], rows["test_domain"], strict=True):
            folder = Path(folders[id])
            run = stored.setdefault(id, StoredRun(folder, records.read(folder)))
            config, part = run.config, selected.rule.reported
            shown, predicted = predictions_at(run, data, int(step), metric)
            late += shown != step
            groups = data.groups(config, by)
            parts.append(predicted[domain][part])
            names.append(groups.of(config, domain, part, parts[-1]))
        totals.append(sum(map(len, names)))
        for name, n, value, reason in _scores(metric, Predictions.join(parts), names):
            samples[name].append(n)
            if reason:
                reasons[name] = reason
            else:
                values[name].append(selected.facts.scale * value)
    scores = {
        name: GroupScores(tuple(n), tuple(values[name]), reasons.get(name, ""))
        for name, n in samples.items()
    }
    return MethodGroups(scores, tuple(totals), late, len(chosen))


def methods_groups(
    selected: Selected, by: Sequence[str], data: DataCache
) -> dict[RowKey, MethodGroups]:
    """The groups of every method with a chosen run."""
    keys = [key for key in selected.rows if len(selected.part(key, selected.chosen))]
    return {key: method_groups(selected, key, by, data) for key in keys}


def _scores(
    metric: Metric, predicted: Predictions, names: Sequence[NDArray[Any]]
) -> Iterator[tuple[str, int, float, str]]:
    """Name, size, metric and reason of each group, by name."""
    joined = np.concatenate(names)
    for name in sorted(set(joined)):
        rows = joined == name
        scores = None if predicted.scores is None else predicted.scores[rows]
        value, reason = metric(predicted.label[rows], predicted.predicted[rows], scores)
        yield name, int(rows.sum()), value, reason


def worst_groups(
    selected: Selected, by: Sequence[str], data: DataCache
) -> tuple[dict[RowKey, str], str]:
    """The worst group of every method, as in ``61.2 (F, north; n 34)``, and what the column is.

    Raises:
        ValueError, OSError: as :func:`method_groups`.
    """
    by_key = methods_groups(selected, by, data)
    cells = {}
    for key, groups in by_key.items():
        if ranked := groups.ranked(selected):
            scores = groups.scores[ranked[0][0]]
            value = selected.trials(scores.values)
            cells[key] = f"{value} ({ranked[0][0]}; n {_size(scores.samples)})"
    late = _late(selected, by_key)
    return cells, (
        f"by {' and '.join(by)}, of those with {FEWEST} samples or more, on {_total(by_key)} "
        f"stored samples of the test domains{f'; at the last step: {late}' * bool(late)}"
    )


def group_tables(page: PageRuns, by: Sequence[str], data: DataCache) -> list[Table]:
    """A table of groups for each data set of a page; none without columns."""
    return [groups_table(one.main, by, data) for one in page.by_data] if by else []


def groups_table(selected: Selected, by: Sequence[str], data: DataCache) -> Table:
    """The metric by group of samples: a row per group, worst first, a column per method.

    Raises:
        ValueError: no run has a test domain, or as :func:`method_groups`.
        OSError: as :func:`method_groups`.
    """
    by_key, metric = methods_groups(selected, by, data), selected.facts
    if not by_key:
        raise ValueError(
            "Groups are compared on samples of test domains, and no run has one with an evaluation."
        )
    first = next(iter(by_key.values()))
    order = [name for name, _ in first.ranked(selected)]

    few = {name: one for name, one in first.scores.items() if min(one.samples) < FEWEST}
    undefined = {n: one for n, one in first.scores.items() if one.reason and n not in few}
    facts = {
        f"fewer than {FEWEST} samples, not ranked": _listed(
            f"{name} ({_size(one.samples)})" for name, one in few.items()
        ),
        f"no {metric.title}": _listed(f"{name} ({one.reason})" for name, one in undefined.items()),
        "at the last step, as predictions of the chosen one are not stored": _late(
            selected, by_key
        ),
    }
    several_trials = max(len(one.samples) for one in first.scores.values()) > 1
    part = part_titles(str(selected.cases["own_data"].iloc[0]))[selected.rule.reported]
    caption = (
        f"{data_title(selected.data)}: {metric.title}{metric.unit} by {' and '.join(by)}, worst "
        f"first, on {_total(by_key)} stored samples of the {part} of the test domains at the step "
        f"chosen by {selected.rule.name}{f', {ERROR}' * several_trials}{metric.direction}."
    )
    titles = [selected.label(*key) if len(by_key) > 1 else metric.title for key in by_key]
    rows = list[tuple[Cell, ...]]()
    for name in order:
        scores = (groups.scores.get(name) for groups in by_key.values())
        cells = (selected.trials(one.values) if one else None for one in scores)
        rows.append((name, _size(first.scores[name].samples), *cells))
    columns = (", ".join(by), "samples", *titles)
    return Table(" ".join([caption, *lines(facts)]), columns, tuple(rows))


def _late(selected: Selected, by_key: Mapping[RowKey, MethodGroups]) -> str:
    """How many runs of each method are shown at their last step."""
    return "; ".join(
        f"{selected.label(*key)} {one.late} of {one.runs} runs"
        for key, one in by_key.items()
        if one.late
    )


def _total(by_key: Mapping[RowKey, MethodGroups]) -> str:
    """Number of samples of a trial."""
    return _size([n for one in by_key.values() for n in one.samples])


def _size(samples: Sequence[int]) -> str:
    """Number of samples, from the fewest to the most of any trial."""
    low, high = min(samples, default=0), max(samples, default=0)
    return str(low) if low == high else f"{low}–{high}"


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return "; ".join(known[:_NAMED]) + more
