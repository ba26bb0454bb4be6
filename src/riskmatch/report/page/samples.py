"""Predictions of runs, stored or from the last checkpoint, and their data sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.data import OnProgress
from riskmatch.registry import INSTANCE
from riskmatch.report.page.examples import Examples, examples_in_memory, examples_on_disk
from riskmatch.report.page.risks import spread
from riskmatch.runs import predictions
from riskmatch.runs.predictions import ByDomain, Predictions
from riskmatch.runs.records import StoredRun, checkpoints
from riskmatch.runs.scores import Split

if TYPE_CHECKING:
    from riskmatch.data.domain import Domain, DomainSet
    from riskmatch.runs.config import RunConfig

MAX_SAMPLES = 2000
"""Most samples of a part of a domain that are passed through a network."""
MAX_VALUES = 1 << 26
"""Most input values of such a part: 341 images of 3 × 256²."""

UNREADABLE = (OSError, ValueError, ImportError, RuntimeError)
"""Errors of a data set, a network or a checkpoint that cannot be loaded."""


class NotStoredError(FileNotFoundError):
    """A run stored neither predictions nor its last checkpoint."""


class DataCache:
    """Load the data sets of runs, and keep the last one.

    Args:
        data_dir: folder in which to look for data first.
        on_progress: called with the progress of reading, decoding or embedding images.
    """

    def __init__(self, data_dir: Path | None = None, on_progress: OnProgress | None = None) -> None:
        self._data_dir, self._on_progress = data_dir, on_progress
        self._last: dict[str, tuple[Any, Any]] = {}

    def inputs(self, config: RunConfig) -> DomainSet:
        """Inputs of the network of a run: features, where its backbone is frozen."""
        from riskmatch.engine.assemble import domains_of

        frozen = (config.model, config.model_options) if config.model_options.get("frozen") else ()
        key = (config.data, config.data_options, frozen)
        domains: DomainSet = self._cached(
            "inputs",
            key,
            lambda: domains_of(config, self._data_dir, on_progress=self._on_progress),
        )
        return domains

    def examples(self, config: RunConfig) -> Examples:
        """Samples of a run for display; only the images that are shown are decoded."""
        from riskmatch.data.catalogue import resolve

        if config.data.startswith(INSTANCE):
            raise ValueError("the data were passed as an object, which the run does not store")
        if not (data := resolve(config.data)).has_image_files:
            return examples_in_memory(self.inputs(config), config.trial)
        index = self._cached("index", config.data, lambda: data.index(self._data_dir))
        return examples_on_disk(index, config.trial)

    def _cached(self, name: str, key: Any, load: Callable[[], Any]) -> Any:
        if name not in self._last or self._last[name][0] != key:
            self._last.pop(name, None)  # free its memory first
            self._last[name] = key, load()
        return self._last[name][1]


def predictions_by_step(
    run: StoredRun, data: DataCache, chosen: int | None = None
) -> dict[int, ByDomain]:
    """Predictions by step: some stored ones and ``chosen``, else those of one checkpoint.

    It is that of the step ``chosen`` where it was kept, else the last.

    Raises:
        NotStoredError: there are neither predictions nor a checkpoint.
        OSError, ValueError, ImportError, RuntimeError: network or data cannot be loaded.
    """
    stored = predictions.steps(run.folder)
    if stored:
        steps = {*spread(stored), *(step for step in stored if step == chosen)}
        return {step: predictions.read(run.folder, step) for step in sorted(steps)}
    kept = checkpoints(run.folder)
    if not kept:  # checked before torch is imported
        raise NotStoredError("the run stored neither predictions nor its last checkpoint")
    step = chosen if chosen in kept else max(kept)
    return {step: _from_checkpoint(run, data, step)}


def validation(by_domain: ByDomain) -> dict[str, Predictions]:
    """The predictions on validation samples, by domain."""
    return {domain: splits["val"] for domain, splits in by_domain.items() if "val" in splits}


def shown_parts(test: bool) -> tuple[Split, ...]:
    """The parts of a domain that are shown in detail: of a test domain both, else validation."""
    return ("train", "val") if test else ("val",)


def shown_in_detail(by_domain: ByDomain, tests: Sequence[str]) -> ByDomain:
    """Validation samples of training domains, and all samples of test domains."""
    return {
        domain: {part: splits[part] for part in shown_parts(domain in tests) if part in splits}
        for domain, splits in by_domain.items()
    }


def _from_checkpoint(run: StoredRun, data: DataCache, step: int) -> ByDomain:
    from riskmatch.data.sampler import split
    from riskmatch.engine.assemble import risk_of
    from riskmatch.engine.evaluate import score_samples
    from riskmatch.engine.instances import NO_INSTANCES
    from riskmatch.engine.load import final_network

    domains, risk = data.inputs(run.config), risk_of(run.config, NO_INSTANCES)
    model = final_network(run.config, run.folder, domains, step)
    by_domain: dict[str, dict[Split, Predictions]] = {}
    for domain in domains.domains:
        parts = split(domain, run.config.trial)
        by_domain[domain.name] = {}
        for name in shown_parts(domain.name in run.config.test_domains):
            rows, subset = _spaced(parts[name])
            predicted = score_samples(model, subset, risk)
            by_domain[domain.name][name] = replace(predicted, index=rows)
    return by_domain


def _spaced(part: Domain) -> tuple[Any, Domain]:
    """Evenly spaced samples of a part of a domain, with their positions in it."""
    import torch

    limit = max(1, min(MAX_SAMPLES, MAX_VALUES // math.prod(part.x.shape[1:])))
    count = min(limit, len(part))
    rows = torch.arange(count) * len(part) // count
    return rows.numpy(), part.take(rows)
