"""Content of reports as JSON values, from records, predictions and checkpoints."""

from riskmatch.report.page.data import page_data
from riskmatch.report.page.runs import find_run
from riskmatch.report.page.summary import summarise

__all__ = ["find_run", "page_data", "summarise"]
