"""``riskmatch.train``: train one run from names or objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from riskmatch import trust
from riskmatch.contract import Objective, OptimFactory, OptimSpec, RiskFunction
from riskmatch.data import DomainSet, OnProgress, load_data
from riskmatch.data.convert import table_options
from riskmatch.defaults import Setting, check_mappings, field_names, resolve, run_config
from riskmatch.engine import run as runs
from riskmatch.engine.device import resolve_device
from riskmatch.engine.instances import (
    KINDS,
    Instances,
    fingerprint,
    instance_name,
    named_objective,
    with_fingerprint,
)
from riskmatch.engine.load import Run
from riskmatch.engine.loop import Keep, OnEvaluation, OnStep
from riskmatch.engine.parallel import joined_processes
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning, replaced_lr
from riskmatch.validation import texts

if TYPE_CHECKING:
    import pandas as pd

    Data = str | Path | DomainSet | Mapping[str, Any] | pd.DataFrame
    """A name, a path, or objects as :func:`riskmatch.load_data` takes them."""


def train(
    data: Data,
    method: str | Objective = "rdm",
    test_domains: str | float | Iterable[str | float] = (),
    *,
    model: str | nn.Module | None = None,
    preset: str | None = None,
    frozen: bool = False,
    risk: str | RiskFunction | None = None,
    optim: str | OptimFactory | None = None,
    seed: int = 0,
    label: str | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    out: Path | str = "runs",
    data_dir: Path | str | None = None,
    device: torch.device | str = "auto",
    resume: bool = False,
    restart: bool = False,
    force: bool = False,
    checkpoint_every: int | None = None,
    keep: Keep = "best",
    predictions: bool = True,
    on_step: OnStep | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Run:
    """Train one run; return it with its configuration, evaluations, predictions and network.

    Names of data, methods, networks and divergences may be ``package.module:Name``. A run with
    objects is stored under their class and a fingerprint of their state; to continue it, pass the
    same objects again.
    A run is identified by the content of its data and evaluated on all of them, so a loader of
    batches is no data of a run: :func:`riskmatch.fit` takes one.

    In a script that torchrun started, or in the default process group of torch, all processes train
    the run together, with the results of one; see :mod:`riskmatch.engine.parallel`.

    Args:
        data: name or path of a data set, or objects as :func:`riskmatch.load_data` takes them.
        method: name of a method, or an objective.
        test_domains: domains held out from training: a name or several; a number stands for its
            text.
        model: name of a network, or a module x → ``(features, logits)``, or x → logits if the
            method needs no features, which is copied; by default the network of the data set.
            Inputs that are a mapping are passed as keyword arguments.
        preset: ``paper``, or ``authors-code`` for what its released code does.
        frozen: train the head alone, on features of a frozen backbone. Unless ``steps`` or
            ``patience`` are given, it stops when the validation risk is flat, as does a head on a
            file of features.
        risk: loss of each sample: ``"cross-entropy"`` (default), ``"squared"`` or ``"huber"`` for a
            regression, whose accuracy is NaN, or a function of ``(logits, y)`` that returns (n,).
        optim: ``"adam"`` (default), ``"adamw"``, ``"sgd"``, or a function of the weights that
            returns a torch optimiser, which has the learning rate and weight decay; see
            :meth:`~riskmatch.contract.OptimSpec.of`.
        seed: seed of the weights, the batches and the method's random choices.
        label: column of the class or target, for a table: a data frame, a CSV or Parquet file.
        domain: column of the domain, for a table.
        ignore: columns to leave out, for a table.
        out: folder of all runs.
        data_dir: folder that is searched first for files of the data set.
        device: device to train on; ``auto`` is a GPU if there is one.
        resume: continue an interrupted or failed run from its last checkpoint.
        restart: start an interrupted or failed run again, without its checkpoints and evaluations.
        force: start the run again even if it is finished.
        checkpoint_every: steps between checkpoints, in addition to those at evaluations.
        keep: keep the last two checkpoints and those of the best steps by ``train-val``, or
            ``all``; see :meth:`~riskmatch.engine.load.Run.model`.
        predictions: write the predictions on every sample at each evaluation.
        on_step: called after every step.
        on_evaluation: called with the configuration of a run and each of its evaluations.
        on_progress: called while data are read, decoded, embedded or evaluated.
        options: fields of the method or of :class:`~riskmatch.runs.config.RunConfig`, such as
            ``weight=1.0`` or ``steps=500``; others have their defaults.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of range.
        UnfinishedError: the run was started before; ``resume`` and ``restart`` are false.
        InstanceError, SourceChangedError: the run to continue was trained with other objects, or
            with another source of a part.
        DataChangedError, BusyError, DivergedError, NoCheckpointError: see
            :func:`riskmatch.engine.run.train`.
        LostProcessError: another process of the run has stopped.

    Example:
        >>> import tempfile
        >>> x, y = torch.randn(40, 3), torch.arange(40) % 2
        >>> clinics = {"A": (x, y), "B": (x + 1, y), "C": (x - 1, y)}
        >>> run = train(clinics, "vrex", "C", out=tempfile.mkdtemp(), steps=20, warmup=5)
        >>> run.record.status, run.evaluations["domain"].unique().tolist()
        ('done', ['A', 'B', 'C'])
        >>> run.model()(x)[1].shape
        torch.Size([40, 2])
    """
    check_mappings(options)
    tests = texts("test_domains", test_domains)
    columns = table_options(label, domain, ignore)
    domains = None
    if not isinstance(data, str | Path):
        domains = load_data(data, **columns, on_progress=on_progress)
    elif columns:
        options["data_options"] = {**options.get("data_options", {}), **columns}
    _check_parts(domains, method, model, frozen, risk, optim, options)
    named, hparams = method, dict[str, Any]()
    if isinstance(method, Objective):
        named, hparams = named_objective(method) or (method, hparams)
    given = {**hparams, **options, "seed": seed}
    named_parts = {"model": model, "risk": risk, "optim": optim}
    given |= {name: part for name, part in named_parts.items() if isinstance(part, str)}
    if callable(optim):
        spec = OptimSpec.of(optim, [torch.zeros(size).requires_grad_() for size in ((1, 1), (1,))])
        given |= {"lr": spec.lr, "weight_decay": spec.weight_decay}
    instances = Instances(
        domains,
        named if isinstance(named, Objective) else None,
        model if isinstance(model, nn.Module) else None,
        risk if callable(risk) else None,
        optim if callable(optim) else None,
    )
    config, settings = _config(instances, str(data), named, tests, preset, frozen, given)
    if message := replaced_lr(config, given):
        warnings.warn(message, RunWarning, stacklevel=2)
    if resume:
        runs.check_not_edited(config, Path(out))
    trust.remember(Path(out) / config.id, config.part_names)
    with joined_processes(resolve_device(str(device))) as processes:
        record = runs.train(
            config,
            Path(out),
            device=processes.device,
            data_dir=None if data_dir is None else Path(data_dir),
            instances=instances,
            resume=resume,
            restart=restart,
            force=force,
            checkpoint_every=checkpoint_every,
            keep=keep,
            predictions=predictions,
            on_step=on_step,
            on_evaluation=on_evaluation,
            on_progress=on_progress,
            processes=processes,
        )
    return Run(Path(out) / config.id, record, instances, settings=settings)


def _check_parts(
    data: DomainSet | None,
    method: object,
    model: object,
    frozen: bool,
    risk: object,
    optim: object,
    options: Mapping[str, Any],
) -> None:
    """Raise unless the parts have the right types and no option belongs to an object."""
    if not isinstance(method, str | Objective):
        raise TypeError(f"method must be a name or an Objective, got {method!r}.")
    if not isinstance(model, str | nn.Module | None):
        raise TypeError(f"model must be a name or a torch.nn.Module, got {model!r}.")
    for name, part in (("risk", risk), ("optim", optim)):
        if not (part is None or isinstance(part, str) or callable(part)):
            raise TypeError(f"{name} must be a name or a function, got {part!r}.")
    for name in options:
        if isinstance(method, Objective) and name in (item.name for item in fields(method)):
            raise ValueError(f"Set {name} on the objective that is passed as method.")
        if isinstance(model, nn.Module) and name in ("dropout", "model", "model_options"):
            raise ValueError(f"Set {name} in the network that is passed as model.")
        if callable(optim) and name in ("lr", "weight_decay"):
            raise ValueError(f"Set {name} in the optimiser that is passed as optim.")
    if data is not None and "data_options" in options:
        raise ValueError("data_options are for data sets by name; leave them out here.")
    if isinstance(model, nn.Module) and frozen:
        raise ValueError("frozen needs a backbone by name, such as lite0.")


def _config(
    instances: Instances,
    data: str,
    method: str | Objective,
    test_domains: tuple[str, ...],
    preset: str | None,
    frozen: bool,
    given: Mapping[str, Any],
) -> tuple[RunConfig, dict[str, Setting]]:
    """Configuration and settings of the run, with names and fingerprints of ``instances``."""
    if instances.data is not None:
        data = instance_name(instances.data)
    options: Any = {"preset": preset, "frozen": frozen, "single": True, "given": given}
    settings = resolve(method if isinstance(method, str) else type(method), data, **options)
    if isinstance(method, str):
        config = run_config(method, data, test_domains, **options)
    else:  # the fields of the run have the defaults of the method
        values = {name: settings[name].value for name in field_names()}
        config = replace(run_config("erm", data, test_domains, given=values), **values)
        hparams = {item.name: getattr(method, item.name) for item in fields(method)}
        settings |= {name: Setting(value, "given") for name, value in hparams.items()}
    if instances.data is not None:
        config = replace(config, test_domains=test_domains)  # not normalised, as names of files are
    for kind in KINDS:
        if (value := getattr(instances, kind)) is not None:
            config = with_fingerprint(kind, instance_name(value), fingerprint(value), config)
            if kind in settings:
                settings[kind] = Setting(getattr(config, kind), "given")
    return config, settings
