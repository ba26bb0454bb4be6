"""Domains and batches: where samples come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from riskmatch.data.batch import Batch
from riskmatch.data.colored_digits import colored_digits
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.sampler import Sampler
from riskmatch.data.splits import split
from riskmatch.spelling import check_keywords, check_option

__all__ = ["DATASETS", "Batch", "Domain", "DomainSet", "Sampler", "load", "split"]

DATASETS: dict[str, Callable[..., DomainSet]] = {"colored-digits": colored_digits}
"""The data sets by name; their options are their keyword arguments."""


def load(name: str, options: Mapping[str, Any] | None = None) -> DomainSet:
    """The data set ``name``.

    Example:
        >>> load("colored-digits", {"samples": 10}).names
        ('0.9', '0.8', '0.1')
    """
    check_option("data set", name, DATASETS)
    check_keywords(f"option of {name}", options or {}, DATASETS[name])
    return DATASETS[name](**options or {})
