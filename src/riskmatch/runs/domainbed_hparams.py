"""DomainBed's hyper-parameters as fields of a method and of its run.

What is particular to a method stands in its class: ``tuned(…, domainbed=NAME)`` for its fields, and
``domainbed_hparams`` for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from riskmatch.runs.config import RunConfig

_NETWORK = "the network: --model"
_ERM_PLUS_PLUS = "of ERM++ alone"
OF_ALL: Mapping[str, str] = {
    "lr": "lr",
    "weight_decay": "weight_decay",
    "batch_size": "batch_size",
    "resnet_dropout": "dropout",
    "resnet18": _NETWORK,
    "resnet50_augmix": _NETWORK,
    "dinov2": _NETWORK,
    "vit": _NETWORK,
    "vit_attn_tune": _NETWORK,
    "vit_dropout": _NETWORK,
    "freeze_bn": "--model-option freeze_bn",
    "data_augmentation": "--data-option augment",
    "class_balanced": "batches are never balanced by class",
    "nonlinear_classifier": "--model-option hidden",
    "lars": _ERM_PLUS_PLUS,
    "linear_steps": _ERM_PLUS_PLUS,
    "linear_lr": _ERM_PLUS_PLUS,
}
"""Hyper-parameters that DomainBed has for every method: the field of the run, or why there is none.
"""


class Translation(NamedTuple):
    """DomainBed's hyper-parameters of a method."""

    fields: dict[str, Any]
    """Values of fields of the method and of the run."""
    left_out: dict[str, str]
    """Why a name is no field."""


def field_by_name(method: type) -> dict[str, str]:
    """The field for each name of DomainBed, or why there is none, for the class of a method.

    Example:
        >>> from riskmatch.objectives import IRM
        >>> names = field_by_name(IRM)
        >>> names["irm_lambda"], names["lr"], names["resnet18"]
        ('weight', 'lr', 'the network: --model')
    """
    own_fields = {item.metadata.get("domainbed") or item.name: item.name for item in fields(method)}
    stated: Mapping[str, str] = method.domainbed_hparams  # type: ignore[attr-defined]
    return {**OF_ALL, **own_fields, **stated}


def translate(method: type, hparams: Mapping[str, Any]) -> Translation:
    """Translate DomainBed's hyper-parameters to fields of the method and of the run.

    A whole number that DomainBed draws as a float is rounded up, as its comparison of steps with
    the end of a warm-up does.

    Example:
        >>> from riskmatch.objectives import EQRM
        >>> translate(EQRM, {"eqrm_burnin_iters": 423.3, "lr": 1e-4, "beta": 2})
        Translation(fields={'warmup': 424, 'lr': 0.0001}, left_out={'beta': 'is unknown'})
    """
    names, translation = field_by_name(method), Translation({}, {})
    items = {item.name: item for cls in (RunConfig, method) for item in fields(cls)}
    for name, value in hparams.items():
        target = names.get(name, "is unknown")
        if target not in items:
            translation.left_out[name] = target
            continue
        default = items[target].default
        whole = default is not MISSING and type(default) is int and isinstance(value, float)
        translation.fields[target] = math.ceil(value) if whole else value
    return translation
