"""A network that mixes the styles of images in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Beta


class MixStyle(nn.Module):
    r"""Give feature maps a style between their own and that of another image of the batch.

    .. math:: \frac{x_i - \mu_i}{\sigma_i}\, \tilde\sigma_i + \tilde\mu_i, \qquad
              \tilde\mu_i = \lambda_i \mu_i + (1 - \lambda_i)\, \mu_j, \quad
              \tilde\sigma_i = \lambda_i \sigma_i + (1 - \lambda_i)\, \sigma_j, \quad
              \lambda_i \sim \mathrm{Beta}(\alpha, \alpha)

    with μ and σ the mean and the standard deviation of each channel over its positions, which are
    constants for the gradient, and j a random permutation of the batch. It acts in training mode,
    on a share of the batches.

    Zhou et al., Domain Generalization with MixStyle, ICLR 2021.

    Args:
        share: share of the batches.
        alpha: α, of the Beta distribution of λ.

    Shapes: x (n, c, h, w) → (n, c, h, w).
    """

    def __init__(self, share: float = 0.5, alpha: float = 0.1) -> None:
        super().__init__()
        self.share, self.alpha = share, alpha

    def forward(self, x: Tensor) -> Tensor:
        """Mix styles."""
        if not self.training or float(torch.rand(())) >= self.share:
            return x
        mean = x.detach().mean((2, 3), keepdim=True)
        deviation = (x.detach().var((2, 3), keepdim=True) + 1e-6).sqrt()
        order = torch.randperm(len(x))
        weight = Beta(self.alpha, self.alpha).sample((len(x), 1, 1, 1)).to(x)
        new_mean, new_deviation = (
            weight * style + (1 - weight) * style[order] for style in (mean, deviation)
        )
        return (x - mean) / deviation * new_deviation + new_mean


class MixStyleCNN(nn.Module):
    """Three 3×3 convolutions with MixStyle behind the first two, then global average pooling.

    Args:
        input_shape: shape of one input, (channels, h, w).
        classes: number of logits.
        dropout: share of features dropped in training.
        width: number of channels.
        share: share of the batches whose styles are mixed.
        alpha: α, of the Beta distribution of the weights of styles.

    Shapes: x (n, channels, h, w) → features (n, width), logits (n, classes).
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        dropout: float = 0.0,
        *,
        width: int = 32,
        share: float = 0.5,
        alpha: float = 0.1,
    ) -> None:
        super().__init__()
        channels, *_ = input_shape
        self.featurizer = nn.Sequential(
            *(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), MixStyle(share, alpha)),
            *(nn.Conv2d(width, width, 3, 2, padding=1), nn.ReLU(), MixStyle(share, alpha)),
            *(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
            *(nn.Flatten(), nn.Dropout(dropout)),
        )
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features = self.featurizer(x)
        return features, self.classifier(features)
