"""Old name of riskmatch.report.coverage, until its last users have moved."""

from riskmatch.report.coverage import missing

__all__ = ["missing"]
