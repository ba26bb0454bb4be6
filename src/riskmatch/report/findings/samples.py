"""What a run said of its validation samples: from its files, or from its last checkpoint."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch import predictions
from riskmatch.data.progress import OnProgress
from riskmatch.predictions import KEPT, Predictions
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.findings.snapshots import ByStep, few

if TYPE_CHECKING:
    from riskmatch.config import RunConfig
    from riskmatch.data.domain import Domain, DomainSet

VALUES = 1 << 26
"""Input values of a domain that are passed through a network, at most: 341 images of 3 × 256²."""


class Samples:
    """Reads or makes predictions; what several runs need of a data set is loaded once.

    Args:
        data_dir: where files of data sets are looked for first.
        on_progress: told of images that are read, decoded or embedded.
    """

    def __init__(self, data_dir: Path | None = None, on_progress: OnProgress | None = None) -> None:
        self._data_dir, self._on_progress = data_dir, on_progress
        self._loaded: tuple[tuple[Any, ...], DomainSet] | None = None

    def of(self, run: RunOnFile) -> ByStep:
        """By step and domain: a few steps from files, else the last from the checkpoint.

        Raises:
            FileNotFoundError: there are neither predictions nor a checkpoint, or there is no data.
            OSError, ValueError, ImportError: the network or the data cannot be loaded.
        """
        on_file = few(predictions.steps(run.folder))
        if on_file:
            return {step: _validation(predictions.read(run.folder, step)) for step in on_file}
        return {run.config.steps: self._from_checkpoint(run)}

    def _from_checkpoint(self, run: RunOnFile) -> dict[str, Predictions]:
        checkpoint = run.folder / "checkpoints" / f"{run.config.steps:08d}.safetensors"
        if not checkpoint.exists():  # torch need not be imported to see this
            raise FileNotFoundError("neither predictions nor its last checkpoint are on file")
        from riskmatch.engine.evaluate import predict
        from riskmatch.engine.final import final_model

        domains = self._domains(run.config)
        model, _ = final_model(run.config, run.folder.parent, domains=domains)
        found = {}
        for domain in domains.domains:
            rows, part = _some(domain, run.config.trial)
            said = predict(model, {domain.name: {"val": part}})[domain.name]["val"]
            found[domain.name] = replace(said, index=rows)
        return found

    def _domains(self, config: RunConfig) -> DomainSet:
        from riskmatch.engine.assemble import domains_of

        key = (config.data, config.data_options, config.model, config.model_options)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # before the next takes its memory
            loaded = domains_of(config, self._data_dir, on_progress=self._on_progress)
            self._loaded = key, loaded
        return self._loaded[1]


def _validation(found: predictions.ByDomain) -> dict[str, Predictions]:
    return {domain: splits["val"] for domain, splits in found.items() if "val" in splits}


def _some(domain: Domain, trial: int) -> tuple[Any, Domain]:
    """Samples of the validation split, evenly spread, and their places in it."""
    import torch

    from riskmatch.data.splits import split

    held_out = split(domain, trial)["val"]
    most = max(1, min(KEPT, VALUES // math.prod(domain.x.shape[1:])))
    rows = torch.arange(min(most, len(held_out))) * len(held_out) // min(most, len(held_out))
    return rows.numpy(), held_out.take(rows)
