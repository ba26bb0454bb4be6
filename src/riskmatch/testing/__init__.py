"""Conformance checks for objectives, data sets, networks and launchers, also for your own."""

from riskmatch.testing.conformance import ConformanceError

__all__ = ["ConformanceError"]
