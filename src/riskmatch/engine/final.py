"""The model that a run ended with, and what it says."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from riskmatch.data.domain import DomainSet
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import domains_of, network, split_all
from riskmatch.engine.data_identity import check_unchanged, identity_of
from riskmatch.engine.evaluate import predict
from riskmatch.engine.run import CHECKPOINTS
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import Split

PREFIX = "model/"


def final_model(
    config: RunConfig,
    out: Path,
    data_dir: Path | None = None,
    domains: DomainSet | None = None,
) -> tuple[nn.Module, DomainSet]:
    """The model of a finished run in the folder ``out``, ready to predict, and its data set.

    Args:
        config: of the run.
        out: the folder of all runs.
        data_dir: where files of the data set are looked for first.
        domains: what :func:`~riskmatch.engine.assemble.domains_of` gave for the same data and
            network, so as not to load it again.

    Raises:
        FileNotFoundError: there is no checkpoint of the last step.
        DataChangedError: the run was trained on other data.
    """
    folder = out / config.id / CHECKPOINTS
    last, _ = checkpoint.load_last(folder, config.id)
    if last is None or last.step != config.steps:
        raise FileNotFoundError(f"{folder} holds no checkpoint of step {config.steps}.")
    domains = domains or domains_of(config, data_dir)
    if found := records.find(out / config.id):
        check_unchanged(found, identity_of(domains), out / config.id)
    model = network(config, domains)
    weights = {k.removeprefix(PREFIX): v for k, v in last.tensors.items() if k.startswith(PREFIX)}
    model.load_state_dict(weights)
    return model.eval(), domains


def final_predictions(
    config: RunConfig, out: Path, data_dir: Path | None = None
) -> dict[str, dict[Split, Predictions]]:
    """What the model of a finished run in the folder ``out`` says of every sample.

    Raises:
        FileNotFoundError: there is no checkpoint of the last step.
        DataChangedError: the run was trained on other data.
    """
    model, domains = final_model(config, out, data_dir)
    return predict(model, split_all(domains, config.trial))
