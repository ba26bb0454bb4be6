"""Assemble the parts of a run from its configuration."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from riskmatch import data, models, registry
from riskmatch.accumulation import check_batch_norm
from riskmatch.contract import (
    Memory,
    Objective,
    OptimSpec,
    evaluation_mode,
    outputs,
    risk_function,
)
from riskmatch.contract.risks import LABELS
from riskmatch.contract.task import Task, find_task, labels_of
from riskmatch.data import OnProgress
from riskmatch.data.doctor.tables import numbers_as_texts
from riskmatch.data.domain import Domain, DomainSet, Labels, NamedTensors, StoredImages
from riskmatch.data.features import random_view
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.sampler import Sampler, stream
from riskmatch.data.splits import splits as split_domains
from riskmatch.data.table import MAX_CLASSES, TableDomains
from riskmatch.defaults import method_class, user_parts
from riskmatch.engine.data_identity import identity_of, identity_of_table, with_identity
from riskmatch.engine.evaluate import Restore, restore_of
from riskmatch.engine.instances import KINDS, NO_INSTANCES, Instances, is_instance
from riskmatch.engine.step import Stepper, StepSettings, check_splits
from riskmatch.metrics import find_metric
from riskmatch.models import Trunk
from riskmatch.models.embedding import embed
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.lines import Split
from riskmatch.runs.task import TaskFacts
from riskmatch.validation import check_option, listed


@dataclass(frozen=True)
class Assembly:
    """The parts of a run before its first step."""

    stepper: Stepper
    sampler: Sampler
    domains: DomainSet
    splits: dict[str, dict[Split, Domain]]
    """Splits of every domain, training and test domains alike, by name."""
    origins: Mapping[str, Mapping[str, str | None]]
    """Origin of each part that is not built in, for the record."""
    task: Task
    """How risks, predictions and metrics come from outputs, with the risk of the run."""
    facts: TaskFacts
    """What the record says of the task."""

    @property
    def restore(self) -> Restore:
        """Maps predictions and labels to the unit of the data."""
        return restore_of(self.domains)


def objective(method: str, hparams: Mapping[str, Any]) -> Objective:
    """Make the objective of this name; fields without a value have their defaults.

    Example:
        >>> objective("groupdro", {"eta": 0.1})
        GroupDRO(eta=0.1)
    """
    cls = method_class(method)
    names = [item.name for item in fields(cls)]
    for name in hparams:
        check_option(f"hyper-parameter of {method}", name, names)
    return cls(**hparams)


def domains_of(
    config: RunConfig,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
    instances: Instances = NO_INSTANCES,
    embedded: bool = True,
) -> DomainSet:
    """Load the run's data set, as features if the backbone is frozen.

    The preprocessing of a table is fitted to the training domains, so that the result belongs to
    the run's test domains.

    Args:
        config: configuration of the run.
        data_dir: folder that is searched first for files of the data set.
        device: device of a frozen backbone.
        on_progress: called with each image that is read, decoded or embedded.
        instances: parts that ``config`` refers to by instance.
        embedded: whether to replace the images of a frozen backbone by their features.
    """
    options, labels = config.model_options, labels_of(config)
    if not is_instance(config.model):
        models.check(config.model, options)
    # Built before images are decoded, because the weights may be missing.
    frozen = embedded and is_frozen(config)
    trunk = models.seeded_trunk(config.model, options) if frozen else None
    domains: DomainSet | None = instances.get("data", config)
    if domains is None:
        domains = data.load(config.data, config.data_options, data_dir, on_progress)
    if isinstance(domains, TableDomains):
        _warn_of_numbers_as_texts(domains)
        fitted = domains.fitted(config.test_domains, labels=labels)
        return with_identity(fitted, identity_of_table(domains, labels))
    if labels is not None and not is_instance(config.data):  # tensors are as the user wants them
        domains = domains.labelled(labels)
    if trunk is None:
        return domains
    features = embed(
        domains, trunk, views=options.get("views", 1), device=device, on_progress=on_progress
    )
    return with_identity(features, identity_of(domains))


def _warn_of_numbers_as_texts(table: TableDomains) -> None:
    """Warn of columns that are categories because a few of their cells are no numbers."""
    for column in table.texts:
        if finding := numbers_as_texts(table, column):
            message = f"Column {column!r} of '{table.name}' {finding.message}. {finding.cure}"
            warnings.warn(message, RunWarning, stacklevel=2)


TASKS_BY_LABELS: Mapping[Labels, str] = {
    "classes": "classification",
    "tags": "multi-label",
    "numbers": "regression",
}
"""The task of a run that names none, by its labels."""
_NEEDED = {
    "classes": "one whole number or text per sample",
    "tags": "0, 1 or NaN per sample and tag, floats of shape (n, k)",
    "numbers": "one float per sample: y.float() in Python, a label of numbers in a table",
}


def task_of(
    config: RunConfig, domains: DomainSet, instances: Instances = NO_INSTANCES
) -> tuple[str, Task]:
    """Name of the task of a run on these data, and the task with the run's risk and metrics.

    Raises:
        ValueError: the labels do not fit the task.
        PartError: the task or a metric cannot be found.
    """
    y, own = domains.domains[0].y, "name a task of your own: --task package.module:NAME"
    shape = f"{y.dtype} of shape ({', '.join(map(str, ('n', *y.shape[1:])))})".removeprefix(
        "torch."
    )
    labels = labels_of(config) or domains.labels
    name = config.task
    if name == "auto":
        if labels == "any":
            raise ValueError(
                f"No task is built in for the labels of '{domains.name}', {shape}: {own}."
            )
        name = TASKS_BY_LABELS[labels]
    task = find_task(name).judged_by(config.metrics, config.metric)
    if task.labels not in ("any", domains.labels):
        fitting = TASKS_BY_LABELS.get(domains.labels)
        cure = f"choose the task {fitting} (--task, task=)" if fitting else own
        raise ValueError(
            f"The task {name} needs {task.labels} as labels, {_NEEDED[task.labels]}, and those of "
            f"'{domains.name}' are {shape}. Give such labels, or {cure}."
        )
    taken = LABELS.get(config.risk, task.labels)
    if "any" not in (task.labels, taken) and taken != task.labels:
        raise ValueError(
            f"The risk {config.risk} takes {taken}, and the task {name} of '{domains.name}' "
            f"predicts {task.labels}. Leave out the risk (--risk, risk=), or choose another task."
        )
    if config.risk == "auto":
        return name, task
    return name, replace(task, risk=instances.get("risk", config) or risk_function(config.risk))


def is_frozen(config: RunConfig) -> bool:
    """Whether the run trains a head alone, on the features of a frozen backbone."""
    return models.is_backbone(config.model) and bool(config.model_options.get("frozen"))


def network(
    config: RunConfig,
    domains: DomainSet,
    trunk: Trunk | None = None,
    instances: Instances = NO_INSTANCES,
    method: Objective | None = None,
) -> nn.Module:
    """Build the run's network as it is before the first step.

    Args:
        config: configuration of the run.
        domains: data set of the run.
        trunk: the trunk of its backbone where it is built already.
        instances: parts that ``config`` refers to by instance; a network is copied.
        method: objective of the run, for which the network must return features where it needs
            them.
    """
    model: nn.Module | None = copy.deepcopy(instances.get("model", config))
    if model is None:
        if domains.augment is random_view and not (is_frozen(config) or config.model == "linear"):
            raise ValueError(
                f"'{domains.name}' has several views of each sample, which the network "
                f"{config.model} cannot take. Use the network linear, or embed with one view."
            )
        inputs = domains.domains[0].x
        if isinstance(inputs, NamedTensors):
            raise ValueError(
                f"The network {config.model} takes one tensor, and the inputs of '{domains.name}' "
                "are several by name: pass a network of your own to riskmatch.train as model."
            )
        is_own = config.model not in models.NETWORKS
        images = isinstance(inputs, StoredImages) or inputs.dtype == torch.uint8
        if images and not (is_own or models.is_backbone(config.model)):
            other = "" if isinstance(inputs, StoredImages) else ", or pass floats: x.float() / 255"
            raise ValueError(
                f"The network {config.model} does not resize and normalise images, as those of "
                f"'{domains.name}' need. Use a backbone: lite0 or timm:NAME{other}."
            )
        model = models.build(
            config.model,
            domains.input_shape,
            domains.outputs,
            config.dropout,
            model_options(config, domains.preprocessing),
            config.seed,
            trunk,
        )
        if models.find_network(config.model).built_in:
            return model
    _check_outputs(config.model, model, domains, method)
    return model


def model_options(config: RunConfig, preprocessing: TablePreprocessing | None) -> Mapping[str, Any]:
    """Options of the run's network, with the numbers of codes of a table's categories."""
    if preprocessing is None:
        return config.model_options
    cardinalities = preprocessing.cardinalities
    return models.with_cardinalities(config.model, config.model_options, cardinalities)


def assemble(
    config: RunConfig,
    device: torch.device | str,
    data_dir: Path | None = None,
    domains: DomainSet | None = None,
    on_progress: OnProgress | None = None,
    instances: Instances = NO_INSTANCES,
    processes: int = 1,
) -> Assembly:
    """Assemble a run; weights, batches and the method's random choices follow from its seed.

    Args:
        config: configuration of the run.
        device: device to train on.
        data_dir: folder that is searched first for files of the data set.
        domains: result of :func:`domains_of` for the same data and network, if it is loaded.
        on_progress: called with each image that is read, decoded or embedded.
        instances: parts that ``config`` refers to by instance.
        processes: number of processes that train it together.
    """
    formula = instances.get("method", config) or objective(config.method, config.hparams)
    if config.accumulate:
        check_splits(formula, "accumulate")
    if processes > 1:
        check_splits(formula, "processes")
    trunk = None
    if domains is None:
        if models.is_backbone(config.model) and not is_frozen(config):
            models.check(config.model, config.model_options)
            # Built before images are decoded, because the weights may be missing.
            trunk = models.seeded_trunk(config.model, config.model_options, config.seed)
        domains = domains_of(config, data_dir, device, on_progress, instances)
    name, task = task_of(config, domains, instances)
    training = tuple(domain.name for domain in domains.without(config.test_domains))
    check_domains(formula, len(training))
    _check_classes(domains, training)
    splits = split_all(domains, config, device)
    model = network(config, domains, trunk, instances, formula)
    model = model.to(device).train()
    if processes > 1:
        check_batch_norm(model)
    factory = instances.get("optim", config)
    if factory is None:
        base = OptimSpec(config.optim, config.lr, config.weight_decay)  # type: ignore[arg-type]
    else:
        base = OptimSpec.of(factory, [p for p in model.parameters() if p.requires_grad])
    stepper = Stepper(
        model,
        formula,
        Memory(base, generator=stream("method", config.seed)),
        StepSettings(
            risk=task.risk,
            schedule=config.schedule,
            start=config.pretrain,
            steps=config.steps,
            clip=config.clip,
            amp=config.amp,
            micro_batch=config.micro_batch,
            accumulate=config.accumulate,
        ),
        domains=training,
    )
    stepper.prepare(domains.domains[0].x[:2].to(device), len(training))
    batches = [splits[name]["train"] for name in training]
    if config.retrain:
        batches = [domain.to(device) for domain in whole_domains(domains, config.test_domains)]
    if domains.augment is not None:  # on the CPU, while the device works
        batches = [domain.to("cpu") for domain in batches]
    options = config.batch_size, config.seed, domains.augment, config.replacement, device
    sampler = Sampler(batches, *options)
    _check_sizes(stepper.objective, sampler.sizes)
    metrics = {name: find_metric(name) for name in task.metrics}
    facts = TaskFacts.of(name, task.primary, metrics)
    return Assembly(stepper, sampler, domains, splits, origins(config, instances), task, facts)


def whole_domains(domains: DomainSet, test_domains: tuple[str, ...]) -> tuple[Domain, ...]:
    """All samples of the training domains, for a run that is trained again.

    Raises:
        ValueError: validation parts must not be trained on.
    """
    training = domains.without(test_domains)
    if any(domain.groups is not None or domain.validation is not None for domain in training):
        raise ValueError(
            f"retrain trains on validation parts, and those of '{domains.name}' are whole groups "
            "or stored apart: set retrain=False (--no-retrain)."
        )
    return training


def check_domains(method: Objective, count: int) -> None:
    """Refuse fewer training domains than the hyper-parameters of the method need."""
    if count < method.min_domains:
        raise ValueError(
            f"{method} needs {method.min_domains} training domains, not {count}: hold out fewer."
        )


def _check_sizes(method: Objective, sizes: Mapping[str, int]) -> None:
    """Refuse batches with fewer samples of a domain than the method needs."""
    for name, size in sizes.items():
        if size < method.min_samples:
            raise ValueError(
                f"{type(method).__name__} needs {method.min_samples} samples of a domain in a "
                f"batch, not {size} of '{name}'. Raise batch_size, or leave the domain out."
            )


def _check_classes(domains: DomainSet, training: tuple[str, ...]) -> None:
    """Refuse data of a single class; warn of classes that only test domains have or are numbers."""
    if domains.classes == 1:
        raise ValueError(
            f"'{domains.name}' has one class only, so every prediction is right. Add another class."
        )
    if not domains.classes:  # a regression
        return
    numbers = all(name.lstrip("+-").isdigit() for name in domains.class_names)
    if domains.preprocessing is not None and numbers and domains.classes > MAX_CLASSES:
        warnings.warn(
            f"The label of '{domains.name}' has {domains.classes:,} different numbers, which are "
            "taken as classes. For a regression, set the risk to squared or huber.",
            RunWarning,
            stacklevel=4,
        )
    labels = {domain.name: set(domain.y.unique().tolist()) for domain in domains.domains}
    seen = set().union(*(labels[name] for name in training))
    for name, classes in labels.items():
        if name not in training and (unseen := sorted(classes - seen)):
            missing = listed([domains.label_names[label] for label in unseen])
            warnings.warn(
                f"No training domain of '{domains.name}' has the class {missing} of the test "
                f"domain '{name}', so it cannot be predicted.",
                RunWarning,
                stacklevel=4,
            )


def origins(config: RunConfig, instances: Instances) -> dict[str, dict[str, str | None]]:
    """Origin of each part of a run that is not built in: its package and version, or its file."""
    parts = dict(user_parts(config))
    for kind in KINDS:
        if (value := instances.get(kind, config)) is not None:
            parts[kind] = registry.part_of(kind, getattr(config, kind), value)
    return {kind: part.to_json() for kind, part in parts.items() if not part.built_in}


def split_all(
    domains: DomainSet, config: RunConfig, device: torch.device | str = "cpu"
) -> dict[str, dict[Split, Domain]]:
    """Both splits of every domain by name, as in a run."""
    by_domain = split_domains(domains.domains, config.trial, config.test_domains, config.split)
    return {
        domain: {cast(Split, name): part.to(device) for name, part in parts.items()}
        for domain, parts in by_domain.items()
    }


def _check_outputs(
    name: str, model: nn.Module, domains: DomainSet, method: Objective | None
) -> None:
    """Raise ``PartError`` unless the network returns what the run needs."""
    weight = next(model.parameters(), None)
    if weight is None:
        raise PartError(f"The network {name} has no weights to train.")
    x = domains.domains[0].x[:2].to(weight.device)
    with evaluation_mode(model), torch.no_grad():
        try:
            features, logits = outputs(model, x)
        except PartError as error:
            raise PartError(f"The network {name} cannot be used. {error}") from None
    if features is None and method is not None and method.needs == "features":
        raise PartError(
            f"{type(method).__name__} needs features, and the network {name} returns logits alone: "
            "return (features, logits), features being the inputs of the last layer."
        )
    wide = features is None or features.ndim == 2
    shape, expected = tuple(logits.shape), (len(x), domains.outputs)
    fits = {"any": shape[:1] == expected[:1], "numbers": shape in (expected, expected[:1])}
    if not wide or not fits.get(domains.labels, shape == expected):
        shown = "" if features is None else f"features {tuple(features.shape)} and "
        raise PartError(
            f"The network {name} must return features (n, width) and logits (n, "
            f"{domains.outputs}), or these logits alone, got {shown}logits {shape} for {len(x)} "
            "samples."
        )
