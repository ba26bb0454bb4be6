"""Multi-layer perceptrons, for any inputs and for tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from riskmatch.validation import check_option

_LEVELS = 1 << 16
"""Distinct random numbers that decide whether an activation is dropped."""


class MLP(nn.Module):
    """Linear layers, each followed by ReLU and dropout; the last hidden layer gives the features.

    Args:
        shape: shape of one input, which is flattened.
        classes: number of logits.
        dropout: share of activations dropped after each hidden layer.
        widths: widths of the hidden layers.
        init: ``"default"`` (torch's) or ``"xavier"``: Glorot's uniform weights and zero biases.
        single_logit: for two classes, one output z instead of two; the logits are (0, z), so that
            their cross-entropy is the binary cross-entropy of z.

    Shapes: x (n, …) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> features, logits = MLP((2, 2), 3, widths=(8,))(torch.zeros(5, 2, 2))
        >>> features.shape, logits.shape
        (torch.Size([5, 8]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        dropout: float = 0.0,
        *,
        widths: Sequence[int] = (256, 256),
        init: Literal["default", "xavier"] = "default",
        single_logit: bool = False,
    ) -> None:
        super().__init__()
        check_option("init", init, ("default", "xavier"))
        if single_logit and classes != 2:
            raise ValueError(f"single_logit needs two classes, got {classes}.")
        layers: list[nn.Module] = [nn.Flatten()]
        if not widths or min(widths) < 1:
            raise ValueError(
                f"widths of mlp must be one or more positive integers, got {list(widths)}."
            )
        for here, there in zip((math.prod(shape), *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(here, there), ReLUDropout(dropout)]
        self.featurizer = nn.Sequential(*layers)
        width = widths[-1]
        self.classifier = SingleLogit(width) if single_logit else nn.Linear(width, classes)
        if init == "xavier":
            for layer in self.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.xavier_uniform_(layer.weight)
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        features = self.featurizer(x)
        return features, self.classifier(features)


class SingleLogit(nn.Linear):
    """A linear classifier of two classes with one output z: the logits are (0, z).

    Shapes: (n, features) → (n, 2).
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Compute the logits."""
        return functional.pad(super().forward(input), (1, 0))


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
        sizes = [min(50, math.ceil(1.6 * count**0.56)) for count in cardinalities]
        self.embeddings = _Embeddings(map(nn.Embedding, cardinalities, sizes))
        self.embeddings.numbers = self.numbers
        for layer in self.embeddings:
            assert isinstance(layer, nn.Embedding)
            nn.init.normal_(layer.weight, std=0.3)
            with torch.no_grad():
                layer.weight[0] = 0
        self.mlp = MLP((self.numbers + sum(sizes),), classes, dropout, widths=widths)

    @property
    def featurizer(self) -> nn.Module:
        """Maps inputs to features."""
        return nn.Sequential(self.embeddings, self.mlp.featurizer)

    @property
    def classifier(self) -> nn.Module:
        """Maps features to logits."""
        return self.mlp.classifier

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits."""
        features, logits = self.mlp(self.embeddings(x))
        return features, logits


class _Embeddings(nn.ModuleList):
    """Numbers beside the embeddings of the categories that follow them."""

    numbers = 0

    def forward(self, x: Tensor) -> Tensor:
        codes = x[:, self.numbers :].long()
        parts = [layer(codes[:, k]) for k, layer in enumerate(self)]
        return torch.cat([x[:, : self.numbers], *parts], 1)


class ReLUDropout(nn.Module):
    """ReLU followed by dropout, in one pass over the activations.

    Several times faster than two layers where memory bandwidth is the limit. Each 64-bit random
    number of torch's global stream serves four activations, so the share that is dropped is
    rounded to a multiple of 2⁻¹⁶ (0.2 to 0.199997). The input is changed in place, and only the
    output is kept for the backward pass.

    Args:
        p: share of activations dropped in training; the others are scaled by 1 / (1 − p).

    Shapes: any → the same.

    Example:
        >>> layer = ReLUDropout(0.5).eval()
        >>> layer(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p must be in [0, 1), got {p}.")
        self.p = round(p * _LEVELS) / _LEVELS

    def forward(self, x: Tensor) -> Tensor:
        """Apply ReLU, and dropout in training mode."""
        if not (self.training and self.p):
            return torch.relu(x)
        out: Tensor = _Fused.apply(x, self.p)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """Describe the layer for ``print``."""
        return f"p={self.p:g}"


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, p: float) -> Tensor:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        draws.random_(-(1 << 63), None)
        quarters = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = torch.empty_like(x)  # ones and zeros: much faster than masked_fill_ on a CPU
        torch.ge(quarters, round(p * _LEVELS) - _LEVELS // 2, out=kept)
        x.clamp_(min=0).mul_(kept).mul_(1 / (1 - p))
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.scale = 1 / (1 - p)  # type: ignore[attr-defined]
        return x

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        scale = ctx.scale  # type: ignore[attr-defined]
        return torch.ops.aten.threshold_backward(grad, out, 0).mul_(scale), None
