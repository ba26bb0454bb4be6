"""Pace of work: seconds per unit so far, from which the time left is estimated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
    """Seconds that units of work took: steps, evaluations, images, bytes.

    Example:
        >>> pace = Pace()
        >>> pace.add(6.0, units=3)
        >>> pace.seconds_for(10)
        20.0
    """

    seconds: float = 0.0
    units: float = 0

    def add(self, seconds: float, units: float = 1) -> None:
        """Count units that took ``seconds`` together."""
        self.seconds += seconds
        self.units += units

    def seconds_for(self, units: float) -> float:
        """Estimate the seconds of further units; 0 before any was counted."""
        return self.seconds / self.units * units if self.units else 0.0


def clock(seconds: float) -> str:
    """Format a duration as minutes and seconds, with hours if there are any.

    Example:
        >>> clock(75), clock(3600)
        ('1:15', '1:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
