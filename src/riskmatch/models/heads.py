"""What makes logits of features."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from riskmatch.validation import check_option

Kind = Literal["linear", "cosine"]


class Cosine(nn.Module):
    """scale · cos(features, w_k) for class k, as Gidaris and Komodakis (CVPR 2018) do.

    Shapes: (n, features) → (n, classes).

    Example:
        >>> import torch
        >>> layer = Cosine(2, 1, scale=10.0)
        >>> bool(layer(torch.randn(5, 2)).abs().max() <= 10)
        True
    """

    def __init__(self, features: int, classes: int, scale: float) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f"The scale of a cosine head must be positive, got {scale}.")
        self.scale = scale
        self.weight = nn.Linear(features, classes, bias=False).weight

    def forward(self, features: Tensor) -> Tensor:
        """The logits."""
        return self.scale * linear(normalize(features), normalize(self.weight))


class Head(nn.Module):
    """Dropout, then a linear or cosine layer; a network of its own where features are inputs.

    Args:
        features: their number.
        classes: the number of logits.
        dropout: the share of features dropped in training.
        kind: ``"linear"`` or ``"cosine"``.
        scale: of the cosines.

    Shapes: x (n, features) → features (n, features), logits (n, classes). Of several views of each
    sample, (n, views, features), the first is taken.

    Example:
        >>> import torch
        >>> features, logits = Head(4, 3)(torch.zeros(5, 2, 4))
        >>> features.shape, logits.shape
        (torch.Size([5, 4]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        features: int,
        classes: int,
        dropout: float = 0.0,
        kind: Kind = "linear",
        scale: float = 10.0,
    ) -> None:
        super().__init__()
        check_option("head", kind, ("linear", "cosine"))
        self.dropout = nn.Dropout(dropout)
        self.classifier = (
            nn.Linear(features, classes) if kind == "linear" else Cosine(features, classes, scale)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features = self.dropout(x[:, 0] if x.ndim == 3 else x)
        return features, self.classifier(features)
