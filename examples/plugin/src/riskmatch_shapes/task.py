"""A task: classes whose labels are wrong now and then."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from riskmatch.contract import Task


def smoothed_risks(outputs: Tensor, y: Tensor) -> Tensor:
    """(n,) the cross-entropy with labels that are right with probability 0.9."""
    return cross_entropy(outputs, y, reduction="none", label_smoothing=0.1)


def most_likely(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) the most likely classes, and the probabilities of all (n, c)."""
    return outputs.argmax(1), outputs.softmax(1)


NOISY_LABELS = Task(
    risk=smoothed_risks,
    predict=most_likely,
    metrics=("balanced-accuracy", "accuracy", "brier"),
    primary="balanced-accuracy",
    labels="classes",
)
