"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from riskmatch.models.relu_dropout import ReLUDropout
from riskmatch.validation import check_option


class MLP(nn.Module):
    """Linear layers with ReLU and dropout after each; the last hidden layer is the features.

    Args:
        inputs: the number of values per sample, after flattening.
        classes: the number of logits.
        widths: the hidden layers.
        dropout: the share of activations dropped after each hidden layer.
        init: ``"default"`` (torch's own) or ``"xavier"``: Glorot's uniform weights and zero biases.
        single_logit: for two classes, one output z in place of two; the logits are (0, z), so
            that their cross-entropy is the binary cross-entropy of z.

    Shapes: x (n, …) → features (n, widths[-1]), logits (n, classes).

    Example:
        >>> import torch
        >>> features, logits = MLP(4, 3, widths=(8,))(torch.zeros(5, 2, 2))
        >>> features.shape, logits.shape
        (torch.Size([5, 8]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        widths: Sequence[int] = (256, 256),
        dropout: float = 0.0,
        init: Literal["default", "xavier"] = "default",
        single_logit: bool = False,
    ) -> None:
        super().__init__()
        check_option("init", init, ("default", "xavier"))
        if single_logit and classes != 2:
            raise ValueError(f"single_logit is for two classes, and there are {classes}.")
        layers: list[nn.Module] = [nn.Flatten()]
        for here, there in zip((inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(here, there), ReLUDropout(dropout)]
        self.featurizer = nn.Sequential(*layers)
        self.single_logit = single_logit
        self.classifier = nn.Linear(widths[-1], 1 if single_logit else classes)
        if init == "xavier":
            for layer in self.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.xavier_uniform_(layer.weight)
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits."""
        features = self.featurizer(x)
        logits = self.classifier(features)
        return features, functional.pad(logits, (1, 0)) if self.single_logit else logits
