"""Risk matching in skorch: the domains travel beside the inputs, ``get_loss`` uses them.

Run: python examples/skorch_net.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import riskmatch
from riskmatch import RiskMatching


class Network(nn.Module):
    """A small network; ``domain`` is passed along with x and not used."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x: Tensor, domain: Tensor | None = None) -> Tensor:
        """The logits."""
        return self.net(x)


class RiskMatchingNet(NeuralNetClassifier):  # type: ignore[misc]
    """A classifier whose training loss is the mean risk plus the matching penalty."""

    def get_loss(
        self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False
    ) -> Tensor:
        """The criterion in training; the mean risk in validation."""
        risks = cross_entropy(y_pred, y_true, reduction="none")
        return self.criterion_(risks, X["domain"]).loss if training else risks.mean()


def main(epochs: int = 5) -> RiskMatchingNet:
    """Train on coloured digits; returns the estimator."""
    domains = riskmatch.load_data("colored-digits", options={"samples": 1000}).domains[:2]
    X = {
        "x": np.concatenate([domain.x.numpy() for domain in domains]),
        "domain": np.repeat([0, 1], 1000),
    }
    y = np.concatenate([domain.y.numpy() for domain in domains])
    torch.manual_seed(0)
    net = RiskMatchingNet(
        Network,
        criterion=RiskMatching,
        criterion__weight=10.0,
        criterion__divergence="moments",
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=256,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        verbose=0,
    )
    net.fit(X, y)
    print({name: round(net.history[-1, name], 4) for name in ("train_loss", "valid_acc")})
    return net


if __name__ == "__main__":
    main()
