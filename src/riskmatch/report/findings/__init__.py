"""The numbers behind a report, from records, predictions and checkpoints."""

from riskmatch.report.findings.page import page_data

__all__ = ["page_data"]
