"""From a configuration to the parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from riskmatch import data, embedding, models
from riskmatch.contract import Memory, Objective, OptimSpec
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.progress import OnProgress
from riskmatch.data.sampler import Sampler
from riskmatch.data.streams import stream
from riskmatch.engine.data_identity import identity_of, known_as
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.runs.identity import DataIdentity
from riskmatch.runs.records import Split
from riskmatch.validation import check_option


@dataclass(frozen=True)
class Parts:
    """What a run consists of, before its first step."""

    stepper: Stepper
    sampler: Sampler
    splits: dict[str, dict[Split, Domain]]
    """Every domain, training and test domains alike, by name."""
    data: DataIdentity
    """What these domains are."""


def objective(method: str, hparams: Mapping[str, Any]) -> Objective:
    """The objective of this name; fields without a value take their defaults.

    Example:
        >>> objective("groupdro", {"eta": 0.1})
        GroupDRO(eta=0.1)
    """
    check_option("method", method, methods())
    kind = methods()[method]
    names = [item.name for item in fields(cast(Any, kind))]
    for name in hparams:
        check_option(f"hyper-parameter of {method}", name, names)
    return kind(**hparams)


def domains_of(
    config: RunConfig,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The run's data set, as features where the backbone is frozen.

    Args:
        config: of the run.
        data_dir: where files of the data set are looked for first.
        device: where a frozen backbone works.
        on_progress: told of every image that is read, decoded or embedded.
    """
    options = config.model_options
    models.check(config.model, options)  # or it would fail after all images are decoded
    domains = data.load(config.data, config.data_options, data_dir, on_progress)
    if not options.get("frozen"):
        return domains
    features = embedding.embed(
        domains,
        config.model,
        models.trunk_options(options),
        views=options.get("views", 1),
        device=device,
        on_progress=on_progress,
    )
    return known_as(features, identity_of(domains))


def network(config: RunConfig, domains: DomainSet) -> nn.Module:
    """The run's network before its first step."""
    return models.build(
        config.model,
        domains.input_shape,
        domains.classes,
        config.dropout,
        config.model_options,
        config.seed,
    )


def assemble(
    config: RunConfig,
    device: torch.device | str,
    data_dir: Path | None = None,
    domains: DomainSet | None = None,
    on_progress: OnProgress | None = None,
) -> Parts:
    """Everything the run needs; weights, batches and the method's choices follow from the seed.

    Args:
        config: of the run.
        device: where it trains.
        data_dir: where files of the data set are looked for first.
        domains: what :func:`domains_of` gave for the same data and network, so as not to load it
            again.
        on_progress: told of every image that is read, decoded or embedded.
    """
    formula = objective(config.method, config.hparams)
    domains = domains or domains_of(config, data_dir, device, on_progress)
    training = tuple(domain.name for domain in domains.without(config.test_domains))
    splits = split_all(domains, config.trial, device)
    model = network(config, domains)
    stepper = Stepper(
        model.to(device).train(),
        formula,
        Memory(
            OptimSpec(lr=config.lr, weight_decay=config.weight_decay),
            generator=stream("method", config.seed),
        ),
        StepSettings(
            schedule=config.schedule,
            start=config.pretrain,
            steps=config.steps,
            clip=config.clip,
            amp=config.amp,
            micro_batch=config.micro_batch,
        ),
        domains=training,
    )
    batches = [splits[name]["train"] for name in training]
    sampler = Sampler(batches, config.batch_size, config.seed, domains.augment)
    return Parts(stepper, sampler, splits, identity_of(domains))


def split_all(
    domains: DomainSet, trial: int, device: torch.device | str = "cpu"
) -> dict[str, dict[Split, Domain]]:
    """Both splits of every domain, by name, as a run of this trial has them."""
    return {
        domain.name: {
            cast(Split, name): part.to(device) for name, part in data.split(domain, trial).items()
        }
        for domain in domains.domains
    }
