"""Scores of a run: accuracy and risks by domain and split, at one evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Levels of the quantiles in a :class:`Score`."""

Split = Literal["train", "val"]


@dataclass(frozen=True)
class Score:
    """Score of a network on one split of one domain."""

    accuracy: float
    risk: float
    """Mean risk."""
    quantiles: tuple[float, ...]
    """Quantiles of the risks at :data:`LEVELS`."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a run after a step."""

    step: int
    scores: Mapping[str, Mapping[Split, Score]]
    """Scores by domain, training and test domains alike, and by split."""
    loss: float
    terms: Mapping[str, float]
    """Terms of the last step; their sum is the loss."""
    raw: Mapping[str, float]
    """Unweighted penalties of the last step."""
    worst_domain: str
    """Training domain with the largest mean risk on its training split."""
    seconds: float
    """Seconds since the run started, over all its processes."""
    seconds_per_step: float
    """Mean over the steps since the previous evaluation, without evaluations and checkpoints."""
    peak_memory: int
    """Peak memory of the steps since the previous evaluation, in bytes: of the process, or of the
    device if it is a GPU."""
    gradients: Mapping[str, float] = field(default_factory=dict)
    """Norms of the gradients of the ``risk`` and of the ``penalty`` of the next step, on a few
    training samples; empty before a penalty acts."""
