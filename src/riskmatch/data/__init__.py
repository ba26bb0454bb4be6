"""Domains and batches: where samples come from."""

from riskmatch.data.batch import Batch
from riskmatch.data.catalogue import DATASETS, load
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.sampler import Sampler
from riskmatch.data.splits import split

__all__ = ["DATASETS", "Batch", "Domain", "DomainSet", "Sampler", "load", "split"]
