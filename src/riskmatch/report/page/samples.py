"""Validation predictions of runs, stored or from the last checkpoint, and their data sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.data import OnProgress
from riskmatch.registry import INSTANCE
from riskmatch.report.page.examples import Examples, examples_in_memory, examples_on_disk
from riskmatch.report.page.risks import ByStep, spread_steps
from riskmatch.report.stored_runs import StoredRun
from riskmatch.runs import predictions
from riskmatch.runs.predictions import Predictions

if TYPE_CHECKING:
    from riskmatch.data.domain import Domain, DomainSet
    from riskmatch.runs.config import RunConfig

MAX_SAMPLES = 2000
"""Most samples of a domain that are passed through a network."""
MAX_VALUES = 1 << 26
"""Most input values of a domain that are passed through a network: 341 images of 3 × 256²."""

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
        """Validation samples of a run for display; only the images that are shown are decoded."""
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


def validation_predictions(run: StoredRun, data: DataCache) -> ByStep:
    """Validation predictions by step and domain: some stored steps, else those of the checkpoint.

    Raises:
        NotStoredError: there are neither predictions nor a checkpoint of the last step.
        OSError, ValueError, ImportError, RuntimeError: network or data cannot be loaded.
    """
    steps = spread_steps(predictions.steps(run.folder))
    if steps:
        return {step: stored_validation(run, step) for step in steps}
    return {run.config.steps: _from_checkpoint(run, data)}


def stored_validation(run: StoredRun, step: int) -> dict[str, Predictions]:
    """Stored validation predictions of one step, by domain."""
    by_domain = predictions.read(run.folder, step)
    return {domain: splits["val"] for domain, splits in by_domain.items() if "val" in splits}


def _from_checkpoint(run: StoredRun, data: DataCache) -> dict[str, Predictions]:
    checkpoint = run.folder / "checkpoints" / f"{run.config.steps:08d}.safetensors"
    if not checkpoint.exists():  # checked before torch is imported
        raise NotStoredError("the run stored neither predictions nor its last checkpoint")
    from riskmatch.engine.evaluate import predict
    from riskmatch.engine.load import final_network

    domains = data.inputs(run.config)
    model = final_network(run.config, run.folder, domains)
    by_domain = {}
    for domain in domains.domains:
        rows, subset = _validation_subset(domain, run.config.trial)
        predicted = predict(model, {domain.name: {"val": subset}})[domain.name]["val"]
        by_domain[domain.name] = replace(predicted, index=rows)
    return by_domain


def _validation_subset(domain: Domain, trial: int) -> tuple[Any, Domain]:
    """Evenly spaced samples of the validation split, with their indices in it."""
    import torch

    from riskmatch.data.sampler import split

    validation = split(domain, trial)["val"]
    limit = max(1, min(MAX_SAMPLES, MAX_VALUES // math.prod(domain.x.shape[1:])))
    count = min(limit, len(validation))
    rows = torch.arange(count) * len(validation) // count
    return rows.numpy(), validation.take(rows)
