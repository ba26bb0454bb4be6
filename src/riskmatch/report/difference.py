"""Old name of riskmatch.report.tables.Gain, until its last users have moved."""

from riskmatch.report.tables import Gain as Difference

__all__ = ["Difference"]
