"""Multi-layer perceptron for tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from riskmatch.models.mlp import MLP


class TableMLP(nn.Module):
    """Embeddings of categories beside normalised numbers, then an :class:`MLP`.

    A category of c values has an embedding of min(50, ⌈1.6 c^0.56⌉) numbers. That of code 0, a
    value that training does not see, starts at zero.

    Args:
        inputs: number of values per sample; the last ones are the codes of categories.
        classes: number of logits.
        cardinalities: number of codes of each category; none for numbers alone.
        widths: widths of the hidden layers.
        dropout: share of activations dropped after each hidden layer.

    Shapes: x (n, inputs) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> features, logits = TableMLP(4, 3, cardinalities=(5, 9), widths=(8,))(torch.ones(2, 4))
        >>> features.shape, logits.shape
        (torch.Size([2, 8]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        cardinalities: Sequence[int] = (),
        widths: Sequence[int] = (256, 128),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.numbers = inputs - len(cardinalities)
        if self.numbers < 0 or min(cardinalities, default=1) < 1:
            raise ValueError(
                f"{len(cardinalities)} categories with {list(cardinalities)} codes do not fit "
                f"{inputs} inputs."
            )
        widths_ = [min(50, -(-1.6 * size**0.56 // 1)) for size in cardinalities]
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, int(width))
            for size, width in zip(cardinalities, widths_, strict=True)
        )
        for layer in self.embeddings:
            assert isinstance(layer, nn.Embedding)
            nn.init.normal_(layer.weight, std=0.3)
            with torch.no_grad():
                layer.weight[0] = 0
        self.mlp = MLP(self.numbers + int(sum(widths_)), classes, widths, dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        codes = x[:, self.numbers :].long()
        parts = [layer(codes[:, k]) for k, layer in enumerate(self.embeddings)]
        features, logits = self.mlp(torch.cat([x[:, : self.numbers], *parts], 1))
        return features, logits
