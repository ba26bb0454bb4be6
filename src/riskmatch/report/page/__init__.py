"""Content of reports as JSON values, from records, predictions and checkpoints."""

from riskmatch.report.page.data import page_data
from riskmatch.report.page.summary import summarise

__all__ = ["page_data", "summarise"]
