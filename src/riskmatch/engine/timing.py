"""Estimate of the time that a run still takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Timing:
    """Seconds of steps and evaluations, from which the time left is estimated.

    Example:
        >>> timing = Timing()
        >>> timing.add_step(0.3, samples=30)
        >>> timing.seconds(steps=10, evaluations=2, samples=300)  # a forward pass is a third
        5.0
        >>> timing.add_evaluation(2.0)
        >>> timing.seconds(steps=10, evaluations=2, samples=300)
        7.0
    """

    _steps: int = 0
    _step_seconds: float = 0.0
    _trained: int = 0
    _evaluations: int = 0
    _evaluation_seconds: float = 0.0

    def add_step(self, seconds: float, samples: int) -> None:
        """Count a step on a batch of ``samples``."""
        self._steps += 1
        self._step_seconds += seconds
        self._trained += samples

    def add_evaluation(self, seconds: float) -> None:
        """Count an evaluation."""
        self._evaluations += 1
        self._evaluation_seconds += seconds

    def seconds(self, steps: int, evaluations: int, samples: int) -> float:
        """Estimate for further steps and evaluations of ``samples``.

        Before the first evaluation, a forward pass counts as a third of a step on as many samples.
        """
        evaluation = self._step_seconds / max(1, self._trained) * samples / 3
        if self._evaluations:
            evaluation = self._evaluation_seconds / self._evaluations
        return self._step_seconds / max(1, self._steps) * steps + evaluation * evaluations
