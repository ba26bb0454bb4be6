"""Train the model of a run again without each of its domains in turn, and score it there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from riskmatch import trust
from riskmatch.data import OnProgress
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.deployment.folder import ModelError, read_folder
from riskmatch.deployment.inputs import BATCH
from riskmatch.deployment.left_out import MAX_FEATURES, MAX_SAMPLES, LeftOutSite, write_left_out
from riskmatch.engine.assemble import domains_of, is_frozen, split_all, task_of
from riskmatch.engine.evaluate import restore_of, score_of, score_samples
from riskmatch.engine.load import Run, on_features
from riskmatch.engine.step import DivergedError
from riskmatch.pace import clock
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import RunRecord
from riskmatch.selection import best_step
from riskmatch.statistics import even
from riskmatch.sweep.plan import held_out

FOLDS, LEAST = 10, 3
"""Most and fewest runs: with two domains, one would be left to train on."""


def folds(
    names: Sequence[str], together: Iterable[Sequence[str]] = (), most: int = FOLDS
) -> list[tuple[str, ...]]:
    """Sets of domains to leave out in turn, at most ``most``, so that each is left out once.

    Example:
        >>> folds("abc")
        [('a',), ('b',), ('c',)]
        >>> folds("abcd", together=["bd"])
        [('a',), ('b', 'd'), ('c',)]
        >>> folds("abcde", most=3)
        [('a', 'd'), ('b', 'e'), ('c',)]
    """
    sets = held_out(names, together=[tuple(group) for group in together])
    return [sum(sets[k::most], ()) for k in range(min(most, len(sets)))]


def train_left_out(
    run: Run,
    train: Callable[..., RunRecord],
    model: Path | None,
    *,
    together: Sequence[Sequence[str]] = (),
    after_warmup: bool = False,
    again: bool = False,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    on_plan: Callable[[str], None] = lambda line: None,
    on_progress: OnProgress | None = None,
) -> None:
    """Train a run without each of its domains in turn, and store the left-out sites with its model.

    The runs are in the folder of the run, have its settings, and continue where they stopped. If
    they are interrupted, those that are done are stored. One that fails is warned about.

    Args:
        run: the run, which is done and trained on all domains.
        train: trains a configuration, on domains that are loaded, in that folder.
        model: the model folder; None where another process writes it.
        together: siblings, which are left out together and count as one site.
        after_warmup: choose among the steps at which the method acts.
        again: store the sites again where the folder has those of the same runs.
        data_dir: folder that is searched first for files of the data set.
        device: device to compute features and predictions on.
        on_plan: called with a line that states the number of runs and their time, and one for
            each run.
        on_progress: called while data are read.

    Raises:
        ValueError: a domain in ``together`` is unknown.
    """
    assert run.record.data is not None  # it is done
    sets = folds(list(run.record.data.samples), together)
    if len(sets) < LEAST:
        on_plan(f"no domain is left out: this takes {LEAST} or more, and there are {len(sets)}")
        return
    configs = [replace(run.config, test_domains=tests) for tests in sets]
    if model is not None and not again and {c.id for c in configs} <= _stored(model):
        return
    seconds = run.record.evaluations[-1].seconds * (len(sets) - 1)
    on_plan(f"{len(sets)} more runs, each without a part of the domains: about {clock(seconds)}")
    sites = list[LeftOutSite]()
    try:
        for number, config in enumerate(configs, 1):
            on_plan(f"run {number} of {len(sets)}, without {', '.join(config.test_domains)}")
            folder = run.folder.parent / config.id
            trust.remember(folder, config.part_names)
            try:
                domains = domains_of(config, data_dir, device, on_progress, run.instances)
                left = Run(folder, train(config, domains=domains), run.instances)
            except (DivergedError, ValueError) as error:
                message = f"There is no left-out site {', '.join(config.test_domains)}: {error}"
                warnings.warn(message, RunWarning, stacklevel=3)
                continue
            if model is not None:
                sites += _scored(left, domains, together, after_warmup, device)
    finally:
        if model is not None and sites:
            write_left_out(model, sites)


def _stored(model: Path) -> set[str]:
    """Ids of the runs whose left-out sites a model folder has."""
    try:
        return {site["run"] for site in read_folder(model)[0].get("left_out") or ()}
    except (ModelError, KeyError, TypeError):  # a damaged folder
        return set()


@torch.no_grad()
def _scored(
    run: Run,
    domains: DomainSet,
    together: Iterable[Collection[str]],
    after_warmup: bool,
    device: torch.device | str,
) -> Iterator[LeftOutSite]:
    """What the model of a run says on its test domains.

    Of domains that share groups with others these are the samples whose groups are not trained on.
    """
    config, record = run.config, run.record
    network = run.model(step=best_step(record, after_warmup))
    if is_frozen(config):  # the domains are features
        network = on_features(network)
    _, task = task_of(config, domains, run.instances)
    score = partial(
        score_samples, network.to(device), task=task, chunk=BATCH, restore=restore_of(domains)
    )
    parts = split_all(domains, config, device)
    training = [splits["val"] for name, splits in parts.items() if name not in config.test_domains]
    some = [_thinned(part, MAX_SAMPLES // len(training)) for part in training]
    validation = Predictions.join([score(part, features=True) for part in some])
    shared = record.data.shared_groups if record.data else ()
    for domain in domains.domains:
        if (name := domain.name) not in config.test_domains:
            continue
        part = name in shared or domain.validation is not None
        site = parts[name]["train"] if part else domain.to(device)
        predictions = score(_thinned(site, MAX_SAMPLES), features=True)
        every = predictions if len(site) <= MAX_SAMPLES else score(site)
        judged = score_of(every, record.task.metrics)
        assert predictions.features is not None  # as they were asked for
        yield LeftOutSite(
            name,
            next((tuple(group) for group in together if name in group), ()),
            len(site),
            {metric: v for metric, v in judged.metrics.items() if not math.isnan(v)},
            judged.risk,
            config.id,
            replace(predictions, features=None),
            predictions.features[even(len(predictions.features), MAX_FEATURES)],
            replace(validation, features=None),
        )


def _thinned(domain: Domain, most: int) -> Domain:
    """At most ``most`` evenly spaced samples, at least one."""
    return domain.take(torch.from_numpy(even(len(domain), max(1, most))).to(domain.y.device))
