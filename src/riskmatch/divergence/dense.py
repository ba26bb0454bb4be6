"""Kernel forms by all pairs: exact, quadratic time, bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from riskmatch.divergence.kernels import RBFMixture

_BLOCK_ELEMENTS = 1 << 20


def evaluate(
    x: Tensor, groups: Tensor, rows: Tensor, coefs: Tensor, kernel: RBFMixture, with_grad: bool
) -> tuple[Tensor, Tensor]:
    """Value and gradient of the forms of :func:`riskmatch.divergence.forms.kernel_forms`.

    All pairs are formed, a block of rows at a time. ``expm1`` keeps the digits of risks that
    differ by 1e-8, where ``exp`` rounds every kernel value to one.

    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``rows`` (r, m), ``coefs`` (r,) → (), (n,).
    """
    gammas = x.new_tensor(kernel.gammas).view(-1, 1, 1)
    q = rows[:, groups]  # (r, n)
    value = x.new_zeros(())
    grad = torch.empty_like(x) if with_grad else x.new_empty(0)
    block = max(1, _BLOCK_ELEMENTS // (x.numel() * len(kernel.gammas)))
    for start in range(0, x.numel(), block):
        piece = slice(start, start + block)
        distance = x[piece, None] - x  # (b, n)
        pairs = (coefs[:, None] * q[:, piece]).T @ q  # (b, n)
        lowered = torch.expm1(-gammas * distance.square())  # (B, b, n): k(d) − k(0)
        value += kernel.weight * (pairs * lowered.sum(0)).sum()
        if with_grad:
            slope = (gammas * (lowered + 1)).sum(0) * distance
            grad[piece] = (-4 * kernel.weight) * (pairs * slope).sum(1)
    return value, grad
