"""Configuration of a run: everything its result depends on, and the id derived from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Literal, get_args

from riskmatch.files import sha256
from riskmatch.registry import INSTANCE
from riskmatch.runs.method import MethodFacts, declared, facts_of
from riskmatch.space import NOT_NEGATIVE, POSITIVE, TRAINING, Interval, bounded, check_valid
from riskmatch.validation import check_option, check_values, shown, type_hints

Schedule = Literal["constant", "cosine", "cosine-after-warmup", "plateau"]
Risk = Literal["auto", "cross-entropy", "binary-cross-entropy", "squared", "huber"]
Optim = Literal["adam", "adamw", "sgd"]
Average = Literal["none", "ema", "swa", "swad"]
SplitRule = Literal["hash", "domainbed"]
_SHARED = "data", "model", "task"
"""Kinds of parts that the ERM phase of a run has, too."""
_SEEDS = Interval(0, 2**63, "left")
WINDOW_AVERAGES: tuple[Average, ...] = ("swa", "swad")
"""Averages over a window of steps: a run has them at its end, and rules choose its last step."""


@dataclass(frozen=True)
class RunConfig:
    """Complete configuration of one training; equal ones give equal bits on one machine.

    Example:
        >>> config = RunConfig("colored-digits", ("0.1",), "erm")
        >>> config.id == RunConfig("colored-digits", ("0.1",), "erm").id
        True
    """

    data: str
    """Data set: a name, a path, or package.module:Name."""
    test_domains: tuple[str, ...]
    """Domains held out from training."""
    method: str
    """Method: a name, or package.module:Name."""
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters of the method by name."""
    model: str = "mlp"
    """Network: a name, timm:NAME, or package.module:Name."""
    lr: float = bounded(5e-5, POSITIVE)
    """Learning rate."""
    weight_decay: float = bounded(0.0, NOT_NEGATIVE)
    """Weight decay."""
    dropout: float = bounded(0.0, Interval(0, 1, "left"))
    """Probability of dropping an activation in training."""
    batch_size: int = bounded(32, NOT_NEGATIVE)
    """Samples per training domain and step; 0 takes whole domains."""
    steps: int = bounded(5000, POSITIVE)
    """Number of optimiser steps."""
    eval_every: int = bounded(300, POSITIVE)
    """Steps between evaluations on every domain."""
    schedule: Schedule = "constant"
    """Schedule of the learning rate: cosine ends at zero on the last step; plateau falls to a tenth
    where the validation risk stays, and to zero the third time."""
    clip: float | None = bounded(None, POSITIVE)
    """Maximum norm of the gradient."""
    amp: bool = False
    """Train in mixed precision (bfloat16)."""
    seed: int = bounded(0, _SEEDS)
    """Seed of the weights, the batches and the method's random choices."""
    trial: int = bounded(0, _SEEDS)
    """Number of the trial, which seeds the split into training and validation."""
    pretrain: int = bounded(0, NOT_NEGATIVE)
    """Steps of ERM before the method starts; runs that agree so far share them."""
    micro_batch: int = bounded(0, NOT_NEGATIVE)
    """Samples per forward pass; 0 passes a batch whole."""
    data_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the data set by name."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the network by name."""
    accumulate: int = bounded(0, NOT_NEGATIVE)
    """Samples whose graph is in memory at a time, with the exact gradient of the batch; 0: all."""
    replacement: bool = False
    """Draw batches with replacement, as DomainBed does; whole domains become bootstraps of them."""
    augment_validation: bool = False
    """Augment the validation images of training domains like training images, as DomainBed does."""
    risk: str = "auto"
    """Loss of each sample: auto, that of the task; cross-entropy, binary-cross-entropy, squared or
    huber."""
    optim: str = "adam"
    """Optimiser: adam, adamw or sgd."""

    eval_fraction: float = bounded(1.0, Interval(0, 1, "right"))
    """Share of each split that evaluations use: the same samples at every evaluation."""
    patience: int = bounded(0, NOT_NEGATIVE)
    """Evaluations without a lower validation risk, once the method acts, after which the run stops;
    0 trains all steps."""
    average: Average = "none"
    """Average of the weights over steps, which is evaluated and shipped: ema, swa (over the last
    quarter of the steps), or swad (over a window that the validation risk chooses)."""
    task: str = "auto"
    """What is predicted: auto, as the labels say; classification, multi-label, regression, or
    package.module:NAME."""
    metrics: tuple[str, ...] = ()
    """What every evaluation records: names, or package.module:function; empty for all metrics of
    the task."""
    metric: str = ""
    """The metric that tables show and selection compares; empty for the task's."""
    retrain: bool = False
    """Train a first run for its validation scores, then train on all samples of the training
    domains, with the learning rates that those scores say."""
    split: SplitRule = "hash"
    """What divides a domain into training and validation part: hash, of its name and the trial; or
    domainbed, as DomainBed does with the trial as seed, which needs folders of images."""
    source: str = ""
    """Hash of the source, or version, of each part that is not built in, as join_sources writes
    them; empty without any."""

    def __post_init__(self) -> None:
        if isinstance(self.metrics, list):
            object.__setattr__(self, "metrics", tuple(self.metrics))
        check_values("", vars(self), type_hints(RunConfig))
        for name, options in (("risk", get_args(Risk)), ("optim", get_args(Optim))):
            if not getattr(self, name).startswith(INSTANCE):
                check_option(name, getattr(self, name), options)
        check_valid(self)
        if self.pretrain >= self.steps:
            raise ValueError(f"pretrain must be in [0, {self.steps}), got {self.pretrain}.")
        if self.average == "swa" and self.patience:
            raise ValueError(
                f"average='swa' averages the last quarter of the steps; patience={self.patience} "
                "may stop the run before: set patience=0, or average with 'ema' or 'swad'."
            )

    def erm_phase(self) -> RunConfig:
        """Configuration of the ERM phase of ``pretrain`` steps that this run starts from."""
        return replace(
            self,
            method="erm",
            hparams={},
            steps=self.pretrain,
            pretrain=0,
            metrics=(),
            metric="",
            source=join_sources({k: v for k, v in self.sources.items() if k in _SHARED}),
            schedule="constant",
            patience=0,
            average="none",
            retrain=False,
        )

    @property
    def sources(self) -> dict[str, str]:
        """:attr:`source` by kind of part."""
        return dict(entry.split(" ", 1) for entry in self.source.split("; ") if " " in entry)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts: data, method, network, and the divergence of a method with one."""
        divergence = self.hparams.get("divergence")
        more = (divergence,) if isinstance(divergence, str) else ()
        return (self.data, self.method, self.model, *more, self.task, *self.metric_names)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics that the configuration names; the others are those of the task."""
        return tuple(dict.fromkeys(filter(None, (*self.metrics, self.metric))))

    def to_json(self) -> dict[str, Any]:
        """Configuration as plain JSON values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        plain: dict[str, Any] = json.loads(json.dumps(values))
        return plain

    @classmethod
    def from_json(cls, values: Mapping[str, Any], about: MethodFacts | None = None) -> RunConfig:
        """Configuration from the values of :meth:`to_json`.

        Args:
            values: the fields; those that are missing have their defaults.
            about: what is known about the method; about another one it does not count.

        Raises:
            ValueError: a field is missing, unknown, or has a wrong value.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"config must be a table, got {shown(values)}.")
        known = cls.__dataclass_fields__
        for name in ("data", "test_domains", "method"):
            if name not in values:
                raise ValueError(f"config.{name} is missing.")
        if not values.keys() <= known.keys():
            check_option("field of config", min(values.keys() - known.keys()), known)
        names = {k: tuple(v) for k, v in values.items() if k in _NAMES and isinstance(v, list)}
        return cls(**{**values, **names}).with_facts(about)

    def with_facts(self, about: MethodFacts | None) -> RunConfig:
        """The configuration, with what is known about its method where that is not None."""
        if about is not None and about.name == self.method:
            vars(self)["about"] = about
        return self

    @cached_property
    def about(self) -> MethodFacts:
        """What is known about the method: from the file that was read, else from its class."""
        return facts_of(self.method)

    @cached_property
    def id(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of :meth:`changed`."""
        return short_hash(self.changed())

    def changed(self) -> dict[str, Any]:
        """The fields and hyper-parameters that differ from their declared defaults.

        The id is their hash, so that a new field changes no id. A declared default therefore never
        changes once a run is recorded. The risk that the task has anyway counts as the default.

        Example:
            >>> named = RunConfig("colored-digits", ("0.1",), "erm", risk="cross-entropy")
            >>> named.id == RunConfig("colored-digits", ("0.1",), "erm").id
            True
        """
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.risk == _USUAL_RISKS.get(self.task):
            values["risk"] = "auto"
        values["hparams"] = _without(self.about.defaults, self.hparams)
        return _without(_declared(type(self)), values)  # type: ignore[arg-type]


_NAMES = "test_domains", "metrics"
"""Fields that are tuples of names."""
_USUAL_RISKS = {
    "auto": "cross-entropy",  # which takes no labels but classes
    "classification": "cross-entropy",
    "multi-label": "binary-cross-entropy",
    "regression": "squared",
}
"""The risk of a built-in task, by name."""


def short_hash(values: Mapping[str, Any]) -> str:
    """First 16 hexadecimal digits of the SHA-256 of JSON values."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return sha256(text)[:16]


def _without(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from their default in JSON, and those without one."""
    return {
        k: v
        for k, v in values.items()
        if k not in defaults or (list(v) if isinstance(v, tuple) else v) != defaults[k]
    }


@cache
def _declared(cls: type) -> dict[str, Any]:
    """Declared defaults, but for what :attr:`Objective.training` sets by method and data."""
    return {name: value for name, value in declared(cls).items() if name not in TRAINING}


def join_sources(sources: Mapping[str, str]) -> str:
    """Sources of parts by kind as one text.

    Example:
        >>> join_sources({"model": "vision-parts 1.2", "method": "0a1b2c3d4e5f6a7b"})
        'method 0a1b2c3d4e5f6a7b; model vision-parts 1.2'
    """
    return "; ".join(f"{kind} {source}" for kind, source in sorted(sources.items()))


def variant(config: RunConfig) -> str:
    """The method of a run, with the values that make another method of it.

    Example:
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "variance", "weight": 5.0}))
        'rdm variance'
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "worst"}))
        'rdm'
        >>> variant(RunConfig("pacs", ("photo",), "erm", average="swad"))
        'erm swad'
    """
    return " ".join([config.method, *_variant(config), *_average(config)])


def title(config: RunConfig) -> str:
    """The name of :func:`variant` in tables.

    Example:
        >>> title(RunConfig("pacs", ("photo",), "rdm", {"match": "variance"}, average="swad"))
        'RDM (every domain, L) + SWAD'
        >>> title(RunConfig("pacs", ("photo",), "my_methods:Robust"))
        'Robust'
    """
    about, values = config.about, " ".join(_variant(config))
    name = about.titles.get(values) or f"{config.method} {values}" if values else about.title
    return " + ".join([name, *(average.upper() for average in _average(config))])


def _variant(config: RunConfig) -> list[str]:
    """The values that make another method of the method."""
    usual = config.about.variants
    values = {name: config.hparams.get(name, value) for name, value in usual.items()}
    return [str(value) for name, value in values.items() if value != usual[name]]


def _average(config: RunConfig) -> list[str]:
    return [config.average] * (config.average != "none")


def acts_from(config: RunConfig) -> int | None:
    """First step at which the method of a run is more than ERM; None where it never is.

    That is the end of its warm-up, as the hyper-parameters ``warmup`` of the method and
    ``pretrain`` of the run give it: 0 for methods without one, and for ERM. A method never acts
    where the warm-up takes all steps, or its penalty has ``weight`` 0. An evaluation at step s
    follows s steps, so those of a run that acts from w > 0 show the method where s > w.
    DomainBed counts steps from 0, so for an imported run that is where s is at least its warm-up.

    Example:
        >>> acts_from(RunConfig("pacs", ("photo",), "rdm", {"weight": 5.0, "warmup": 1500}))
        1500
        >>> acts_from(RunConfig("pacs", ("photo",), "rdm", {"warmup": 1500}, steps=300)) is None
        True
    """
    if config.about.plain:
        return 0
    logged = config.about.warmup != MethodFacts.warmup
    start = max(warmup_of(config) - logged, config.pretrain)
    return None if start >= config.steps or config.hparams.get("weight") == 0 else start


def warmup_of(config: RunConfig) -> int:
    """Steps of the warm-up of a method; 0 without one."""
    value = config.hparams.get(config.about.warmup)
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
