"""A run as a value: everything its result depends on, and the id that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import NoneType
from typing import Any, Literal, get_args

from riskmatch.spelling import check_option

Schedule = Literal["constant", "cosine", "cosine-after-warmup"]

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "float | None": ((int, float, NoneType), "a number or none"),
    "tuple[str, ...]": ((tuple,), "a tuple of names"),
    "Mapping[str, Any]": ((Mapping,), "a table"),
}
"""What a field may hold, and how that is called, by the field's type as written below."""


@dataclass(frozen=True)
class RunConfig:
    """One training, in full: two runs with equal configurations give equal bits on one machine.

    Example:
        >>> config = RunConfig("colored-digits", ("0.1",), "erm")
        >>> config.id == RunConfig("colored-digits", ("0.1",), "erm").id
        True
    """

    data: str
    """The name of a data set, or a path."""
    test_domains: tuple[str, ...]
    """The domains that training never sees."""
    method: str
    """The name of an objective."""
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """Every field of the objective."""
    model: str = "mlp"
    """The name of a network."""
    lr: float = 1e-3
    """Learning rate."""
    weight_decay: float = 0.0
    """Weight of the squared norm of the weights."""
    dropout: float = 0.0
    """Share of activations dropped in training."""
    batch_size: int = 32
    """Samples per training domain and step; 0 takes every domain whole."""
    steps: int = 5000
    """Steps of the optimiser."""
    eval_every: int = 300
    """Steps from one evaluation on every domain to the next."""
    schedule: Schedule = "constant"
    """Of the learning rate: the cosine ends at zero on the last step."""
    clip: float | None = None
    """Largest norm of the gradient."""
    amp: bool = False
    """Mixed precision, in bfloat16."""
    seed: int = 0
    """Of the weights, the batches and the method's own choices."""
    trial: int = 0
    """Of the split of each domain into training and validation."""
    pretrain: int = 0
    """Steps of ERM before the method starts, trained once and shared by all runs alike so far."""
    micro_batch: int = 0
    """Samples per forward pass, where a batch is passed in pieces; 0 passes it whole."""
    data_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the data set, by name."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the network, by name."""

    def __post_init__(self) -> None:
        check_option("schedule", self.schedule, get_args(Schedule))
        for item in fields(self):
            if item.name != "schedule":
                self._check_kind(item.name, str(item.type))
        sane = {
            "lr": self.lr > 0,
            "weight_decay": self.weight_decay >= 0,
            "dropout": 0 <= self.dropout < 1,
            "batch_size": self.batch_size >= 0,
            "steps": self.steps > 0,
            "eval_every": self.eval_every > 0,
            "clip": self.clip is None or self.clip > 0,
            "pretrain": 0 <= self.pretrain < self.steps,
            "micro_batch": self.micro_batch >= 0,
        }
        for name, holds in sane.items():
            if not holds:
                raise ValueError(f"No run can have {name} = {getattr(self, name)}.")

    def _check_kind(self, name: str, kind: str) -> None:
        value, (types, told) = getattr(self, name), _KINDS[kind]
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if isinstance(value, tuple):
            fits = fits and all(isinstance(entry, str) for entry in value)
        if not fits:
            raise ValueError(f"No run can have {name} = {value!r}, which is not {told}.")

    def erm_phase(self) -> RunConfig:
        """The run whose end this one starts from, where ``pretrain`` is not 0."""
        return replace(
            self, method="erm", hparams={}, steps=self.pretrain, pretrain=0, schedule="constant"
        )

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunConfig:
        """The configuration that :meth:`to_json` wrote."""
        tests = values["test_domains"]
        return cls(**{**values, "test_domains": tuple(tests) if isinstance(tests, list) else tests})

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits of the hash of the configuration."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
