"""Runs on disk: configuration, records, predictions, locks, and all runs as a data frame."""
