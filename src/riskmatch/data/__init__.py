"""Domains and batches: data sets by name, from files and from objects in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.data.catalogue import load
    from riskmatch.data.convert import load_data
    from riskmatch.data.domain import Batch, Domain, DomainSet
    from riskmatch.data.preprocessing import TablePreprocessing, preprocessing_from_json
    from riskmatch.data.sampler import Sampler, split
    from riskmatch.data.sources import DATASETS, DataSource

__all__ = [
    "DATASETS",
    "Batch",
    "DataSource",
    "Domain",
    "DomainSet",
    "OnProgress",
    "Sampler",
    "TablePreprocessing",
    "load",
    "load_data",
    "preprocessing_from_json",
    "split",
]

OnProgress = Callable[[str, int, int | None], None]
"""Called with the name of a task, the amount done, and the total where it is known.

The amount is a number of bytes or of images, as the caller documents.
"""


def no_progress(task: str, done: int, total: int | None) -> None:
    """Ignore progress."""


_HOMES = {
    "DATASETS": "sources",
    "Batch": "domain",
    "DataSource": "sources",
    "Domain": "domain",
    "DomainSet": "domain",
    "Sampler": "sampler",
    "TablePreprocessing": "preprocessing",
    "load": "catalogue",
    "load_data": "convert",
    "preprocessing_from_json": "preprocessing",
    "split": "sampler",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
