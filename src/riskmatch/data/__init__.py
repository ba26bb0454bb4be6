"""Domains and batches: where samples come from."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.data.batch import Batch
    from riskmatch.data.catalogue import DATASETS, DataSource, load
    from riskmatch.data.convert import load_data
    from riskmatch.data.domain import Domain, DomainSet
    from riskmatch.data.sampler import Sampler
    from riskmatch.data.splits import split

__all__ = [
    "DATASETS",
    "Batch",
    "DataSource",
    "Domain",
    "DomainSet",
    "Sampler",
    "load",
    "load_data",
    "split",
]

_HOMES = {
    "DATASETS": "catalogue",
    "Batch": "batch",
    "DataSource": "catalogue",
    "Domain": "domain",
    "DomainSet": "domain",
    "Sampler": "sampler",
    "load": "catalogue",
    "load_data": "convert",
    "split": "splits",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that facts of data sets can be read without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
