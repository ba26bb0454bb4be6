"""Parts of a run that are passed as objects instead of names.

The configuration of such a run names the class or function, ``instance:package.module.Class``, and
holds a fingerprint of the object's state. The object itself is not saved: it must be passed again
to continue the run or to load its network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor, nn

from riskmatch.contract import Objective, OptimFactory, RiskFunction
from riskmatch.data.domain import DomainSet
from riskmatch.engine.data_identity import identity_of
from riskmatch.files import sha256
from riskmatch.models.embedding import hash_inputs, hash_weights
from riskmatch.objectives import methods
from riskmatch.registry import INSTANCE
from riskmatch.runs.config import RunConfig
from riskmatch.source import source_hash

FINGERPRINT = "fingerprint"
"""Option that holds the fingerprint."""

InstanceKind = Literal["data", "method", "model", "risk", "optim"]
KINDS: tuple[InstanceKind, ...] = get_args(InstanceKind)
_OPTIONS: dict[InstanceKind, str] = {
    "data": "data_options",
    "method": "hparams",
    "model": "model_options",
}
"""Field of the configuration that holds the options of a part, or its fingerprint. That of a part
without options follows its name after a ``#``."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class InstanceError(ValueError):
    """An instance that a run was trained with is missing, or another one was passed."""


@dataclass(frozen=True)
class Instances:
    """Objects to use where the configuration of a run names an instance."""

    data: DomainSet | None = None
    method: Objective | None = None
    model: nn.Module | None = None
    risk: RiskFunction | None = None
    optim: OptimFactory | None = None

    def get(self, kind: InstanceKind, config: RunConfig) -> Any:
        """Return the object that ``config`` refers to; None if ``config`` names a part.

        Raises:
            InstanceError: the object was not passed, or it is not the one of the run.
        """
        value, expected = getattr(self, kind), recorded_fingerprint(kind, config)
        if expected is None:
            return None
        of = getattr(config, kind).removeprefix(INSTANCE).partition("#")[0]
        what = f"The {kind} of run {config.id} is an instance of {of}"
        if value is None:
            function = "load_run" if kind in ("model", "method") else "train"
            raise InstanceError(
                f"{what}, which is not saved with the run: pass the same object again, as in "
                f"riskmatch.{function}(…, {kind}=…)."
            )
        actual = fingerprint(value)
        if actual != expected:
            raise InstanceError(
                f"{what} with fingerprint {expected[:12]}, but the {kind} passed has fingerprint "
                f"{actual[:12]}: pass the object that the run was trained with, in the same state."
            )
        return value


NO_INSTANCES = Instances()
"""For runs whose parts all have names."""


def is_instance(name: str) -> bool:
    """Whether the name of a part in a configuration stands for an instance."""
    return name.startswith(INSTANCE)


def recorded_fingerprint(kind: InstanceKind, config: RunConfig) -> str | None:
    """Fingerprint of an instance in a configuration; None if ``config`` names a part."""
    name: str = getattr(config, kind)
    if not is_instance(name):
        return None
    if kind in _OPTIONS:
        return str(getattr(config, _OPTIONS[kind])[FINGERPRINT])
    return name.partition("#")[2]


def with_fingerprint(kind: InstanceKind, name: str, value: str, config: RunConfig) -> RunConfig:
    """``config`` with the instance ``name`` of the fingerprint ``value`` as a part."""
    if kind in _OPTIONS:
        return replace(config, **{kind: name, _OPTIONS[kind]: {FINGERPRINT: value}})  # type: ignore[arg-type]
    return replace(config, **{kind: f"{name}#{value}"})  # type: ignore[arg-type]


def without_fingerprints(config: RunConfig, kinds: Iterable[InstanceKind]) -> RunConfig:
    """``config`` with empty fingerprints of the instances of these kinds."""
    for kind in kinds:
        if is_instance(name := getattr(config, kind)):
            config = with_fingerprint(kind, name.partition("#")[0], "", config)
    return config


def instance_name(value: object) -> str:
    """Name of an instance in a configuration.

    Example:
        >>> from riskmatch.models import MLP
        >>> instance_name(MLP((2,), 2))
        'instance:riskmatch.models.mlp.MLP'
    """
    named = value if isinstance(value, FunctionType | type) else type(value)
    return f"{INSTANCE}{named.__module__}.{named.__qualname__}"


def named_objective(objective: Objective) -> tuple[str, dict[str, Any]] | None:
    """Name and hyper-parameters that give an equal objective; None if there are none.

    There are if the class can be imported by name and its fields are plain JSON values.

    Example:
        >>> from riskmatch.objectives import GroupDRO
        >>> named_objective(GroupDRO(eta=0.1))
        ('groupdro', {'eta': 0.1})
    """
    cls = type(objective)
    built_in = {method: name for name, method in methods().items()}
    name = built_in.get(cls, f"{cls.__module__}:{cls.__qualname__}")
    hparams = {item.name: getattr(objective, item.name) for item in fields(objective)}
    try:
        importable = cls in built_in or (
            cls.__module__ != "__main__"
            and getattr(import_module(cls.__module__), cls.__qualname__, None) is cls
        )
        same = importable and cls(**json.loads(json.dumps(hparams, allow_nan=False))) == objective
    except (ImportError, TypeError, ValueError):
        return None
    return (name, hparams) if same else None


def fingerprint(value: object) -> str:
    """SHA-256 of the state of an object, that is fields, weights or samples, and of its source.

    Example:
        >>> from riskmatch.objectives import GroupDRO
        >>> fingerprint(GroupDRO(eta=0.1)) == fingerprint(GroupDRO(eta=0.2))
        False
    """
    return sha256(json.dumps(_state(value)))


def _attributes(module: nn.Module) -> Any:
    """State of the attributes of a module that are neither weights nor modules."""
    names = sorted(k for k in vars(module) if not k.startswith("_") and k != "training")
    return [[name, _state(vars(module)[name])] for name in names]


def _state(value: Any) -> Any:
    """Plain JSON value that determines the state of an object."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return hash_inputs(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, sha256(value.tobytes())]
    if isinstance(value, Mapping):
        return [[_state(key), _state(entry)] for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [_state(entry) for entry in value]
    if isinstance(value, DomainSet):
        state = [identity_of(value).to_json(), list(value.test_only), _state(value.augment)]
        return [instance_name(value), *state]
    if isinstance(value, nn.Module):
        trainable = [name for name, weight in value.named_parameters() if weight.requires_grad]
        text = _ADDRESS.sub("", repr(value))
        code = sorted({h for m in value.modules() if (h := source_hash(m))})
        plain = [_attributes(m) for m in value.modules() if source_hash(m)]
        state = [instance_name(value), hash_weights(value), text, trainable, *code, *plain]
        if isinstance(value, nn.modules.loss._Loss):  # whose options its text lacks
            options = {k: v for k, v in vars(value).items() if not k.startswith("_")}
            return [*state, _state({k: v for k, v in options.items() if k != "training"})]
        return state
    if isinstance(value, MethodType):
        return [_state(value.__func__), _state(value.__self__)]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_state(entry)) for entry in value)
    if isinstance(value, partial):
        return ["partial", _state(value.func), _state(value.args), _state(value.keywords)]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        preset = [_state(value.__defaults__), _state(value.__kwdefaults__)]
        return [instance_name(value), source_hash(value), _state(cells), preset]
    if is_dataclass(value) and not isinstance(value, type):
        values = {f.name: _state(getattr(value, f.name)) for f in fields(value)}
        return [instance_name(value), source_hash(value), values]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return [instance_name(value), source_hash(value), _state(vars(value))]
    return _ADDRESS.sub("", repr(value))
