"""The first two moments: the cheapest match, and the paper's choice on ColoredMNIST."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from riskmatch.divergence.divergence import Divergence


@dataclass(frozen=True)
class Moments(Divergence):
    r"""Squared differences of the mean and of the unbiased variance.

    .. math:: (\bar x - \bar y)^2 + (s_x^2 - s_y^2)^2

    Example:
        >>> import torch
        >>> Moments()(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 5.0]))  # (1−3)² + (2−8)²
        tensor(40.)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024,
    supplement.
    """

    min_samples = 2

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked."""
        if weights is None:
            return (x.mean() - y.mean()).square() + (x.var() - y.var()).square()
        mean = (weights * y).sum()  # autocast would compute a dot product in half precision
        variance = (weights * (y - mean).square()).sum() / (1 - weights.square().sum())
        return (x.mean() - mean).square() + (x.var() - variance).square()
