"""Domains and batches: where samples come from."""

from riskmatch.data.batch import Batch

__all__ = ["Batch"]
