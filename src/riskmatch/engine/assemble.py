"""From a configuration to the parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from riskmatch import data, models
from riskmatch.contract import Memory, Objective, OptimSpec
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.progress import OnProgress
from riskmatch.data.sampler import Sampler
from riskmatch.data.streams import stream
from riskmatch.engine.data_identity import identity_of, known_as
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.models import Trunk
from riskmatch.models.embedding import embed
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.runs.identity import DataIdentity
from riskmatch.runs.records import Split
from riskmatch.space import with_later
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
    return kind(**with_later(kind, hparams))


def domains_of(
    config: RunConfig,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """Load the run's data set, as features if the backbone is frozen.

    Args:
        config: configuration of the run.
        data_dir: folder that is searched first for files of the data set.
        device: device of a frozen backbone.
        on_progress: called with each image that is read, decoded or embedded.
    """
    options = config.model_options
    models.check(config.model, options)
    if not is_frozen(config):
        return data.load(config.data, config.data_options, data_dir, on_progress)
    trunk = models.seeded_trunk(config.model, options)  # before images are decoded: it may fail
    domains = data.load(config.data, config.data_options, data_dir, on_progress)
    features = embed(
        domains, trunk, views=options.get("views", 1), device=device, on_progress=on_progress
    )
    return known_as(features, identity_of(domains))


def is_frozen(config: RunConfig) -> bool:
    """Whether the run trains a head alone, on the features of a frozen backbone."""
    return models.is_backbone(config.model) and bool(config.model_options.get("frozen"))


def network(config: RunConfig, domains: DomainSet, trunk: Trunk | None = None) -> nn.Module:
    """Build the run's network as it is before the first step.

    Args:
        config: configuration of the run.
        domains: data set of the run.
        trunk: the trunk of its backbone where it is built already.
    """
    return models.build(
        config.model,
        domains.input_shape,
        domains.classes,
        config.dropout,
        config.model_options,
        config.seed,
        trunk,
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
    trunk = None
    if domains is None:
        if models.is_backbone(config.model) and not is_frozen(config):
            models.check(config.model, config.model_options)
            # Built before images are decoded, because the weights may be missing.
            trunk = models.seeded_trunk(config.model, config.model_options, config.seed)
        domains = domains_of(config, data_dir, device, on_progress)
    training = tuple(domain.name for domain in domains.without(config.test_domains))
    splits = split_all(domains, config.trial, device)
    model = network(config, domains, trunk)
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
