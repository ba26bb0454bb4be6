"""A network: one wide hidden layer."""

from __future__ import annotations

import math

from torch import Tensor, nn


class WideMLP(nn.Module):
    """A multi-layer perceptron with one hidden layer.

    Args:
        input_shape: shape of one input.
        classes: number of logits.
        dropout: share of hidden units dropped in training.
        width: number of hidden units.

    Shapes: x (n, …) → features (n, width), logits (n, classes).
    """

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, dropout: float = 0.0, *, width: int = 64
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Flatten(), nn.Linear(math.prod(input_shape), width), nn.ReLU(), nn.Dropout(dropout)
        )
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features = self.features(x)
        return features, self.classifier(features)
