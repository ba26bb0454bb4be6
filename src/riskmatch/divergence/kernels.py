"""Gaussian kernels on the line, mixed over many bandwidths."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from riskmatch.divergence.checks import check_option

Reduction = Literal["mean", "sum"]
_REDUCTIONS = get_args(Reduction)

_DECADES = tuple(10.0**power for power in range(-4, 4))
_MEDIAN_SAMPLES = 1024


@dataclass(frozen=True)
class RBFMixture:
    r"""A mixture of Gaussian (RBF) kernels on scalars.

    .. math:: k(d) = \frac{1}{B} \sum_{b=1}^{B} \exp\!\left(-\frac{d^2}{2\sigma_b}\right)

    with ``reduction="mean"``; ``reduction="sum"`` leaves out the factor 1/B. The bandwidth σ is a
    squared length, as in the paper.

    Args:
        bandwidths: one or more positive numbers σ.
        reduction: ``"mean"`` or ``"sum"`` over the bandwidths.

    Example:
        >>> kernel = RBFMixture([0.5, 2.0])
        >>> kernel(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5733])

    Reference: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012.
    """

    bandwidths: tuple[float, ...]
    reduction: Reduction = "mean"

    def __init__(self, bandwidths: float | Iterable[float], reduction: Reduction = "mean") -> None:
        values = bandwidths if isinstance(bandwidths, Iterable) else (bandwidths,)
        sigmas = tuple(float(value) for value in values)
        if not sigmas:
            raise ValueError("RBFMixture needs at least one bandwidth, for example [1.0].")
        for sigma in sigmas:
            if not (math.isfinite(sigma) and sigma > 0):
                raise ValueError(
                    f"A bandwidth must be a positive finite number, got {sigma:g}; "
                    "it is the σ of exp(-d²/(2σ)), for example 1.0."
                )
        check_option("reduction", reduction, _REDUCTIONS)
        object.__setattr__(self, "bandwidths", sigmas)
        object.__setattr__(self, "reduction", reduction)

    @classmethod
    def paper(cls) -> RBFMixture:
        """The paper's kernel: the mean over σ ∈ {1e-4, …, 1e3} of exp(−d²/(2σ))."""
        return cls(_DECADES)

    @classmethod
    def authors_code(cls) -> RBFMixture:
        """The released code's kernel: the sum over γ ∈ {1e-4, …, 1e3} of exp(−γd²).

        The published penalty weights λ belong to this one, so it is the default everywhere.
        """
        return cls.from_gammas(_DECADES, reduction="sum")

    @classmethod
    def from_gammas(cls, gammas: Iterable[float], reduction: Reduction = "mean") -> RBFMixture:
        """Kernels written as exp(−γd²), that is σ = 1/(2γ).

        Example:
            >>> RBFMixture.from_gammas([0.5]).bandwidths
            (1.0,)
        """
        values = tuple(float(gamma) for gamma in gammas)
        for gamma in values:
            if not (math.isfinite(gamma) and gamma > 0):
                raise ValueError(f"γ must be a positive finite number, got {gamma:g}.")
        return cls([0.5 / gamma for gamma in values], reduction)

    @classmethod
    def median(cls, *samples: Tensor, scales: Iterable[float] = (1.0,)) -> RBFMixture:
        """The median heuristic: σ is the squared median distance between the pooled samples.

        Above 1,024 samples the median is that of 1,024 evenly spaced order statistics, so the cost
        is one sort. Where all samples are equal any bandwidth gives an MMD of zero; σ is then 1.

        Args:
            samples: one or more tensors of scalars, pooled.
            scales: factors on σ; several give a mixture around the median.

        Example:
            >>> RBFMixture.median(torch.tensor([0.0, 1.0, 3.0])).bandwidths
            (4.0,)
        """
        if not sum(sample.numel() for sample in samples):
            raise ValueError("The median heuristic needs samples: RBFMixture.median(x, y).")
        pool = torch.cat([sample.detach().flatten().cpu().double() for sample in samples])
        if not bool(torch.isfinite(pool).all()):
            raise ValueError(
                "The median heuristic needs finite samples; drop the NaN and infinite."
            )
        pool = pool.sort().values
        if len(pool) > _MEDIAN_SAMPLES:
            ranks = torch.linspace(
                0, len(pool) - 1, _MEDIAN_SAMPLES, dtype=torch.float64, device="cpu"
            )
            pool = pool[ranks.round().long()]
        distances = torch.pdist(pool[:, None])
        spread = float(distances.median()) if len(distances) else 0.0
        spread = spread or (float(distances.mean()) if len(distances) else 0.0) or 1.0
        return cls(spread**2 * float(scale) for scale in scales)

    @property
    def gammas(self) -> tuple[float, ...]:
        """The γ = 1/(2σ) of each kernel."""
        return tuple(0.5 / sigma for sigma in self.bandwidths)

    @property
    def weight(self) -> float:
        """The factor before each kernel: 1/B for the mean, 1 for the sum."""
        return 1.0 / len(self.bandwidths) if self.reduction == "mean" else 1.0

    def __call__(self, distance: Tensor) -> Tensor:
        """k(d) for a tensor of distances, of any shape."""
        square = distance.square()
        return self.weight * torch.stack([(-gamma * square).exp() for gamma in self.gammas]).sum(0)
