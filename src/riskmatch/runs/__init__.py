"""Runs on disk: configuration, records, predictions, locks, and all runs as a data frame."""

__all__ = [
    "cases",
    "config",
    "domainbed",
    "frame",
    "lock",
    "predictions",
    "records",
]
