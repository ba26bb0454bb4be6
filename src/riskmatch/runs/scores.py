"""Scores of a run: accuracy and risks by domain and split, at one evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from riskmatch.validation import check_json

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

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Evaluation:
        """Evaluation from the values of a line, in which null stands for NaN.

        Raises:
            ValueError: a value is missing, infinite, or has another type; the message names it.
        """
        try:
            made = cls._from_json(values)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            check_json(values, _SCHEMA)  # raises an error that names the value
            check_json(values.get("gradients", {}), {str: _NUMBER}, "gradients")
            raise
        return made

    @classmethod
    def _from_json(cls, values: Mapping[str, Any]) -> Evaluation:
        known = {name: _numbers(value) for name, value in values.items() if name != "kind"}
        scores = {
            domain: {
                split: Score(**{**score, "quantiles": tuple(score["quantiles"])})
                for split, score in splits.items()
            }
            for domain, splits in known["scores"].items()
        }
        made = cls(**{**known, "scores": scores})
        numbers = [made.loss, made.seconds, made.seconds_per_step, made.peak_memory]
        numbers += [*made.terms.values(), *made.raw.values(), *made.gradients.values()]
        for splits in scores.values():
            for score in splits.values():
                numbers += [score.accuracy, score.risk, *score.quantiles]
        if any(map(math.isinf, numbers)):  # an error where one is no number
            raise ValueError("a number is infinite")
        return made


_NUMBER = float | None
_SCHEMA = {
    "step": int,
    "scores": {str: {str: {"accuracy": _NUMBER, "risk": _NUMBER, "quantiles": [_NUMBER]}}},
    **{name: {str: _NUMBER} for name in ("terms", "raw")},
    **dict.fromkeys(("loss", "seconds", "seconds_per_step", "peak_memory"), _NUMBER),
}
"""Types of the values of a line, in which null stands for NaN."""


def _numbers(value: Any) -> Any:
    """Replace None by NaN."""
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return math.nan if value is None else value
