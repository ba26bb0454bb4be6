"""ReLU and dropout in one pass over the activations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

_LEVELS = 1 << 16  # of the random numbers that decide what is dropped


class ReLUDropout(nn.Module):
    """ReLU, then dropout; several times faster than the two layers where memory is slow.

    Torch draws one random number per activation; here one of 64 bits serves four of them, so the
    share that is dropped is rounded to a multiple of 2⁻¹⁶ (0.2 to 0.199997). The input is changed
    in place and only the output is kept for the backward pass. The random numbers are those of
    torch's own stream.

    Args:
        p: the share of activations dropped in training; the others are scaled by 1 / (1 − p).

    Shapes: any → the same.

    Example:
        >>> layer = ReLUDropout(0.5).eval()
        >>> layer(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"The share to drop must lie in [0, 1), got {p}.")
        self.p = round(p * _LEVELS) / _LEVELS

    def forward(self, x: Tensor) -> Tensor:
        """The activations that are positive and kept, scaled; the others 0."""
        if not (self.training and self.p):
            return torch.relu(x)
        out: Tensor = _Fused.apply(x, self.p)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """The share that is dropped, for ``print``."""
        return f"p={self.p:g}"


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, p: float) -> Tensor:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        draws.random_(-(1 << 63), None)
        quarters = draws.view(torch.int16)[: x.numel()].view(x.shape)
        dropped = quarters < round(p * _LEVELS) - _LEVELS // 2
        x.clamp_(min=0).mul_(1 / (1 - p)).masked_fill_(dropped, 0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.scale = 1 / (1 - p)  # type: ignore[attr-defined]
        return x

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        scale = ctx.scale  # type: ignore[attr-defined]
        return torch.ops.aten.threshold_backward(grad, out, 0) * scale, None
