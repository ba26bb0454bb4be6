"""``riskmatch.train``: train one run from names or objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from riskmatch import models
from riskmatch.contract import Objective
from riskmatch.data import DomainSet, OnProgress, load_data
from riskmatch.defaults import field_names, method_class, resolve, run_config
from riskmatch.engine import run as runs
from riskmatch.engine.device import resolve_device
from riskmatch.engine.instances import (
    FINGERPRINT,
    OPTIONS,
    InstanceError,
    Instances,
    fingerprint,
    instance_name,
    is_instance,
    named_objective,
)
from riskmatch.engine.load import Run
from riskmatch.engine.loop import OnEvaluation, OnStep
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.validation import check_option

if TYPE_CHECKING:
    import pandas as pd

    Data = str | Path | DomainSet | Mapping[str, Any] | pd.DataFrame
    """A name, a path, or objects as :func:`riskmatch.load_data` takes them."""


def train(
    data: Data,
    method: str | Objective = "rdm",
    test_domains: str | Iterable[str] = (),
    *,
    model: str | nn.Module | None = None,
    preset: str | None = None,
    frozen: bool = False,
    seed: int = 0,
    label: str | None = None,
    domain: str | None = None,
    out: Path | str = "runs",
    data_dir: Path | str | None = None,
    device: torch.device | str = "auto",
    resume: bool = False,
    checkpoint_every: int | None = None,
    predictions: bool = True,
    on_step: OnStep | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Run:
    """Train one run; return it with its configuration, evaluations, predictions and network.

    Wherever a name is accepted, so is ``package.module:Name``. A run with objects is stored under
    their class and a fingerprint of their state; to continue it, pass the same objects again.

    Args:
        data: name or path of a data set, or objects as :func:`riskmatch.load_data` takes them.
        method: name of a method, or an objective.
        test_domains: domains held out from training.
        model: name of a network, or a module x → ``(features, logits)``, which is copied; by
            default the network of the data set.
        preset: name of a preset of the method.
        frozen: train the head alone, on features of a frozen backbone.
        seed: seed of the weights, the batches and the method's random choices.
        label: column of the class, for a data frame.
        domain: column of the domain, for a data frame.
        out: folder of all runs.
        data_dir: folder that is searched first for files of the data set.
        device: device to train on; ``auto`` is a GPU if there is one.
        resume: continue an interrupted or failed run from its last checkpoint.
        checkpoint_every: steps between checkpoints, in addition to those at evaluations.
        predictions: write the predictions on every sample at each evaluation.
        on_step: called after every step.
        on_evaluation: called with the configuration of a run and each of its evaluations.
        on_progress: called while data are read, decoded or embedded.
        options: fields of the method or of :class:`~riskmatch.runs.config.RunConfig`, such as
            ``weight=1.0`` or ``steps=500``; others have their defaults.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of range.
        UnfinishedError: the run was started before and ``resume`` is false.
        InstanceError: the run to continue was trained with other objects.
        DataChangedError, BusyError, DivergedError: see :func:`riskmatch.engine.run.train`.

    Example:
        >>> import tempfile
        >>> x, y = torch.randn(40, 3), torch.arange(40) % 2
        >>> clinics = {"A": (x, y), "B": (x + 1, y), "C": (x - 1, y)}
        >>> run = train(clinics, "vrex", "C", out=tempfile.mkdtemp(), steps=20, weight=10.0)
        >>> run.record.status, run.evaluations["domain"].unique().tolist()
        ('done', ['A', 'B', 'C'])
        >>> run.model()(x)[1].shape
        torch.Size([40, 2])
    """
    given = {**options, "seed": seed}
    tests = (test_domains,) if isinstance(test_domains, str) else tuple(test_domains)
    domains = None
    if not isinstance(data, str | Path):
        domains = load_data(data, label=label, domain=domain, on_progress=on_progress)
    passed = _Passed(domains or str(data), method, model)
    config = passed.config(tests, preset, frozen, given)
    if resume:
        _check_same_instances(config, Path(out))
    record = runs.train(
        config,
        Path(out),
        device=resolve_device(str(device)),
        data_dir=None if data_dir is None else Path(data_dir),
        instances=passed.instances,
        resume=resume,
        checkpoint_every=checkpoint_every,
        predictions=predictions,
        on_step=on_step,
        on_evaluation=on_evaluation,
        on_progress=on_progress,
    )
    return Run(Path(out) / config.id, record, passed.instances)


@dataclass(frozen=True)
class _Passed:
    """Parts of a run as they were passed to :func:`train`."""

    data: str | DomainSet
    method: str | Objective
    model: str | nn.Module | None

    def __post_init__(self) -> None:
        for name, value, types in (
            ("method", self.method, (str, Objective)),
            ("model", self.model, (str, nn.Module, type(None))),
        ):
            if not isinstance(value, types):
                expected = "an Objective" if name == "method" else "a torch.nn.Module"
                raise TypeError(f"{name} must be a name or {expected}, got {value!r}.")

    @property
    def instances(self) -> Instances:
        """Objects that a configuration cannot name."""
        return Instances(
            data=None if isinstance(self.data, str) else self.data,
            method=None if isinstance(self._named_method[0], str) else self._named_method[0],
            model=self.model if isinstance(self.model, nn.Module) else None,
        )

    @property
    def _named_method(self) -> tuple[str | Objective, dict[str, Any]]:
        """Name of the method and the hyper-parameters of an objective; or the objective."""
        if isinstance(self.method, str):
            return self.method, {}
        return named_objective(self.method) or (self.method, {})

    def config(
        self,
        test_domains: tuple[str, ...],
        preset: str | None,
        frozen: bool,
        given: Mapping[str, Any],
    ) -> RunConfig:
        """Configuration of the run, with the names of objects in place of the objects."""
        method, hparams = self._named_method
        self._check_options(frozen, given)
        given = {**hparams, **given}
        if isinstance(self.model, str):
            given["model"] = self.model
        if isinstance(method, str) and isinstance(self.data, str):
            config = run_config(
                method, self.data, test_domains, preset=preset, frozen=frozen, given=given
            )
        else:
            config = self._config(test_domains, preset, frozen, given)
        for kind in OPTIONS:
            if (value := getattr(self.instances, kind)) is not None:
                options: dict[str, Any] = {OPTIONS[kind]: {FINGERPRINT: fingerprint(value)}}
                config = replace(config, **{kind: instance_name(value), **options})
        return config

    def _config(
        self,
        test_domains: tuple[str, ...],
        preset: str | None,
        frozen: bool,
        given: Mapping[str, Any],
    ) -> RunConfig:
        """Configuration where the data or the method have no name."""
        method, _ = self._named_method
        cls = type(method) if isinstance(method, Objective) else method_class(method)
        named = self.data if isinstance(self.data, str) else None
        values = resolve(
            cls if isinstance(method, Objective) else method,
            named,
            preset=preset,
            frozen=frozen,
            given=given,
        )
        hparams = {f.name: values.pop(f.name) for f in fields(cls) if f.name in values}
        models.check(values["model"], values["model_options"])
        if isinstance(method, str):
            cls(**hparams)  # raises for values that the method refuses
        if named is not None:  # its path is made absolute, its options are checked
            data_options = {"data_options": values["data_options"]}
            base = run_config("erm", named, test_domains, given=data_options)
            named, test_domains = base.data, base.test_domains
        name = method if isinstance(method, str) else ""
        return RunConfig(named or "", test_domains, name, hparams, **values)

    def _check_options(self, frozen: bool, given: Mapping[str, Any]) -> None:
        """Raise ``ValueError`` for options that do not exist or that belong to an object."""
        method = self.method if isinstance(self.method, str) else type(self.method)
        label = method if isinstance(method, str) else method.__name__
        valid = field_names(method)
        for name in given:
            check_option(f"option of {label}", name, valid)
        if isinstance(self.method, Objective):
            for item in fields(self.method):
                if item.name in given:
                    raise ValueError(f"Set {item.name} on the objective that is passed as method.")
        if isinstance(self.data, DomainSet) and "data_options" in given:
            raise ValueError("data_options are for data sets by name; leave them out here.")
        if isinstance(self.model, nn.Module):
            for name in ("dropout", "model", "model_options"):
                if name in given:
                    raise ValueError(f"Set {name} in the network that is passed as model.")
            if frozen:
                raise ValueError("frozen needs a backbone by name, such as lite0.")


def _check_same_instances(config: RunConfig, out: Path) -> None:
    """Raise ``InstanceError`` if the run to continue was trained with other objects."""
    kinds = [kind for kind in OPTIONS if is_instance(getattr(config, kind))]
    if not kinds or (out / config.id).exists():
        return
    blank: dict[str, Any] = {OPTIONS[kind]: {} for kind in kinds}
    for record in records.read_all(out):
        if replace(record.config, **blank) == replace(config, **blank):
            before, now = record.config, config
            changed = [k for k in kinds if getattr(before, OPTIONS[k]) != getattr(now, OPTIONS[k])]
            raise InstanceError(
                f"The run {record.config.id} in {out} was trained with another {changed[0]}: pass "
                "the same object, in the same state, or leave out resume to start a new run."
            )
