"""What a run said of its validation samples: from its files, or from its last checkpoint."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.findings.snapshots import ByStep, few
from riskmatch.report.findings.sources import Sources
from riskmatch.runs import predictions
from riskmatch.runs.predictions import Predictions

if TYPE_CHECKING:
    from riskmatch.data.domain import Domain

SAMPLES = 2000
"""Of a domain that are passed through a network, at most."""
VALUES = 1 << 26
"""Input values of a domain that are passed through it, at most: 341 images of 3 × 256²."""


UNREADABLE = (OSError, ValueError, ImportError, RuntimeError)
"""What a data set or a checkpoint raises that is not as it should be."""


class NotOnFileError(FileNotFoundError):
    """A run left nothing from which its predictions can be had."""


def validation(run: RunOnFile, sources: Sources) -> ByStep:
    """By step and domain: a few steps from files, else the last from the checkpoint.

    Raises:
        NotOnFileError: there are neither predictions nor a checkpoint of the last step.
        OSError, ValueError, ImportError, RuntimeError: network or data cannot be loaded.
    """
    on_file = few(predictions.steps(run.folder))
    if on_file:
        return {step: _validation(predictions.read(run.folder, step)) for step in on_file}
    return {run.config.steps: _from_checkpoint(run, sources)}


def _from_checkpoint(run: RunOnFile, sources: Sources) -> dict[str, Predictions]:
    checkpoint = run.folder / "checkpoints" / f"{run.config.steps:08d}.safetensors"
    if not checkpoint.exists():  # torch need not be imported to see this
        raise NotOnFileError("neither predictions nor a last checkpoint are on file")
    from riskmatch.engine.evaluate import predict
    from riskmatch.engine.load import final_network

    domains = sources.inputs(run.config)
    model = final_network(run.config, run.folder, domains)
    found = {}
    for domain in domains.domains:
        rows, part = _some(domain, run.config.trial)
        said = predict(model, {domain.name: {"val": part}})[domain.name]["val"]
        found[domain.name] = replace(said, index=rows)
    return found


def _validation(found: predictions.ByDomain) -> dict[str, Predictions]:
    return {domain: splits["val"] for domain, splits in found.items() if "val" in splits}


def _some(domain: Domain, trial: int) -> tuple[Any, Domain]:
    """Samples of the validation split, evenly spread, and their places in it."""
    import torch

    from riskmatch.data.splits import split

    held_out = split(domain, trial)["val"]
    most = max(1, min(SAMPLES, VALUES // math.prod(domain.x.shape[1:])))
    rows = torch.arange(min(most, len(held_out))) * len(held_out) // min(most, len(held_out))
    return rows.numpy(), held_out.take(rows)
