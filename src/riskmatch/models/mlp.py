"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with ReLU and dropout after each; the last hidden layer is the features.

    Args:
        inputs: the number of values per sample, after flattening.
        classes: the number of logits.
        widths: the hidden layers.
        dropout: the share of activations dropped after each hidden layer.

    Shapes: x (n, …) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> import torch
        >>> features, logits = MLP(4, 3, widths=(8,))(torch.zeros(5, 2, 2))
        >>> features.shape, logits.shape
        (torch.Size([5, 8]), torch.Size([5, 3]))
    """

    def __init__(
        self, inputs: int, classes: int, widths: Sequence[int] = (256, 256), dropout: float = 0.0
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        for here, there in zip((inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(here, there), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
        self.featurizer = nn.Sequential(*layers)
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features = self.featurizer(x)
        return features, self.classifier(features)
