"""A run as a value: everything its result depends on, and the id that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_type_hints

from riskmatch.space import without_later
from riskmatch.validation import check_option, misfit

Schedule = Literal["constant", "cosine", "cosine-after-warmup"]


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
        for name, kind in _kinds().items():
            value = getattr(self, name)
            if told := misfit(value, kind):
                raise ValueError(f"No run can have {name} = {value!r}, which is not {told}.")
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
        """Sixteen hexadecimal digits of the hash of the configuration.

        A field declared with :func:`~riskmatch.space.later` counts only where it differs from what
        its absence means, so that ids of earlier versions stand.
        """
        values = without_later(type(self), self.to_json())
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


VARIANTS: dict[str, dict[str, object]] = {
    "causirl": {"distance": "coral"},
    "rdm": {"match": "worst", "divergence": "mmd"},
}
"""Fields that make another method of a method where they differ from these values."""


def variant(config: RunConfig) -> str:
    """The method of a run, with the values that make another method of it.

    Example:
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "variance", "weight": 5.0}))
        'rdm variance'
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "worst"}))
        'rdm'
    """
    usual = VARIANTS.get(config.method, {})
    values = {name: config.hparams.get(name, value) for name, value in usual.items()}
    return " ".join([config.method, *(str(v) for name, v in values.items() if v != usual[name])])


@cache
def _kinds() -> dict[str, Any]:
    """The annotations of the fields but for the schedule, one of a few names."""
    return {name: kind for name, kind in get_type_hints(RunConfig).items() if name != "schedule"}
