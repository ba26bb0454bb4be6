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
        shape: shape of one input, (values,); the last values are the codes of categories.
        classes: number of logits.
        dropout: share of activations dropped after each hidden layer.
        cardinalities: number of codes of each category; set from the table.
        widths: widths of the hidden layers.

    Shapes: x (n, values) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> network = TableMLP((4,), 3, cardinalities=(5, 9), widths=(8,))
        >>> features, logits = network(torch.ones(2, 4))
        >>> features.shape, logits.shape
        (torch.Size([2, 8]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        dropout: float = 0.0,
        *,
        cardinalities: Sequence[int] = (),
        widths: Sequence[int] = (256, 128),
    ) -> None:
        super().__init__()
        if len(shape) != 1:
            raise ValueError(
                f"The network 'table' needs rows of a table (d,), got inputs {tuple(shape)}."
            )
        self.numbers = shape[0] - len(cardinalities)
        if self.numbers < 0 or min(cardinalities, default=1) < 1:
            raise ValueError(
                f"{len(cardinalities)} categories with {list(cardinalities)} codes do not fit "
                f"{shape[0]} inputs."
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
        self.mlp = MLP((self.numbers + int(sum(widths_)),), classes, dropout, widths=widths)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        codes = x[:, self.numbers :].long()
        parts = [layer(codes[:, k]) for k, layer in enumerate(self.embeddings)]
        features, logits = self.mlp(torch.cat([x[:, : self.numbers], *parts], 1))
        return features, logits
