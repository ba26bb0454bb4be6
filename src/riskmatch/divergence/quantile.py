"""Quantiles of a kernel density estimate of a few scalars, differentiable in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

_HALVINGS = 64
_RESOLVED = 64  # a spread of fewer units of rounding is noise


def kde_quantile(samples: Tensor, alpha: float) -> Tensor:
    r"""The α-quantile v of a Gaussian kernel density estimate.

    .. math:: \frac1m \sum_{i=1}^m \Phi\!\left(\frac{v - x_i}{h}\right) = \alpha, \qquad
              h = 1.06\, \hat\sigma\, m^{-1/5}

    with σ̂ the unbiased standard deviation. The root is found by bisection and the gradient by the
    implicit function theorem; it flows through the bandwidth h too. One sample, or equal ones, have
    no spread: the quantile is then their mean.

    Args:
        samples: (m,) floating point.
        alpha: strictly between 0 and 1.

    Returns:
        () differentiable once in ``samples``.

    Example:
        >>> kde_quantile(torch.tensor([1.0, 2.0, 3.0]), 0.5)
        tensor(2.)

    Reference: Eastwood et al., *Probable Domain Generalization via Quantile Risk Minimization*,
    NeurIPS 2022.
    """
    if not 0 < alpha < 1:
        raise ValueError(
            f"A quantile level must lie strictly between 0 and 1, got {alpha!r}; for levels too "
            "close to 1 for a float use kde_tail_quantile with log(1 − α)."
        )
    return _located(samples, lambda standard, values: _quantile(standard, values, alpha))


def kde_tail_quantile(samples: Tensor, log_tail: float) -> Tensor:
    r"""The quantile at α so close to 1 that only log(1 − α) is a number: its asymptote.

    .. math:: \bar x + h \sqrt{-2 \log(1 - \alpha)}

    with the bandwidth h of :func:`kde_quantile`.

    Args:
        samples: (m,) floating point.
        log_tail: log(1 − α), negative.

    Example:
        >>> kde_tail_quantile(torch.tensor([1.0, 2.0, 3.0]), -50.0)  # 2 + 10 · 1.06 · 3^(−1/5)
        tensor(10.5090)
    """
    if not log_tail < 0:
        raise ValueError(f"log(1 − α) must be negative, got {log_tail!r}.")
    return _located(samples, lambda *_: math.sqrt(-2 * log_tail))


def _located(samples: Tensor, quantile: Callable[[Tensor, list[float]], Tensor | float]) -> Tensor:
    """Mean + h · ``quantile`` of the samples in units of h, where nearly equal ones stay apart.

    The numbers that are needed on the host are read from a device at once.
    """
    mean = samples.mean()
    if len(samples) == 1:
        return mean
    bandwidth = 1.06 * math.pow(len(samples), -0.2) * samples.std()
    rounding = torch.finfo(samples.dtype).eps * samples.detach().abs().max()
    standard = (samples - mean) / bandwidth
    read = torch.cat([standard.detach(), bandwidth.detach()[None], rounding[None]]).tolist()
    *points, width, noise = read
    if width <= _RESOLVED * noise:
        return mean
    return mean + bandwidth * quantile(standard, points)


class _StandardQuantile(torch.autograd.Function):
    """() the quantile of kernels of unit bandwidth on ``samples`` (m,); ``values`` are theirs."""

    @staticmethod
    def forward(ctx: FunctionCtx, samples: Tensor, values: list[float], alpha: float) -> Tensor:
        # Solved in the lower tail, by mirroring: small probabilities keep their digits there.
        sign, level = (1.0, alpha) if alpha <= 0.5 else (-1.0, 1 - alpha)
        points = [sign * value for value in values]
        offset = NormalDist().inv_cdf(level)
        low, high = min(points) + offset, max(points) + offset
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            total = sum(0.5 * math.erfc((point - middle) * math.sqrt(0.5)) for point in points)
            low, high = (middle, high) if total < level * len(points) else (low, middle)
        root = torch.tensor(sign * 0.5 * (low + high), dtype=samples.dtype).to(samples.device)
        ctx.save_for_backward(torch.softmax(-0.5 * (root - samples).square(), dim=0))
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        (density,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * density, None, None


_quantile: Callable[[Tensor, list[float], float], Tensor] = _StandardQuantile.apply
