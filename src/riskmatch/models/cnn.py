"""Small convolutional network."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class CNN(nn.Module):
    """3×3 convolutions with ReLU and group normalisation, then global average pooling.

    Args:
        shape: shape of one input, (channels, h, w).
        classes: number of logits.
        dropout: share of features dropped in training.
        widths: channels of each layer, multiples of eight; the second layer has stride 2.

    Shapes: x (n, channels, h, w) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> import torch
        >>> features, logits = CNN((2, 8, 8), 3, widths=(8, 16))(torch.zeros(5, 2, 8, 8))
        >>> features.shape, logits.shape
        (torch.Size([5, 16]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        dropout: float = 0.0,
        *,
        widths: Sequence[int] = (64, 128, 128, 128),
    ) -> None:
        super().__init__()
        if len(shape) != 3:
            raise ValueError(
                f"The network 'cnn' needs images (channels, h, w), got inputs {tuple(shape)}."
            )
        layers: list[nn.Module] = []
        for place, (here, there) in enumerate(zip((shape[0], *widths[:-1]), widths, strict=True)):
            convolution = nn.Conv2d(here, there, 3, stride=2 if place == 1 else 1, padding=1)
            layers += [convolution, nn.ReLU(), nn.GroupNorm(8, there)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        self.featurizer = nn.Sequential(*layers)
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        features = self.featurizer(x)
        return features, self.classifier(features)
