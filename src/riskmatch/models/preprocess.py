"""Preprocess stored images as in the pretraining of a backbone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

Interpolation = Literal["bilinear", "bicubic"]


class Preprocess(nn.Module):
    """Resize to a square, then normalise each channel: (x − mean) / std.

    Args:
        size: side of the square, in pixels.
        mean: mean of each channel, for values in [0, 1].
        std: standard deviation of each channel.
        interpolation: interpolation of the resize, which is antialiased.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → (n, 3, size, size) floats.

    Example:
        >>> white = torch.full((1, 3, 8, 8), 255, dtype=torch.uint8)
        >>> Preprocess(4, (0.5, 0.5, 0.5), (0.25, 0.25, 0.5))(white)[0, :, 0, 0]
        tensor([2., 2., 1.])
    """

    def __init__(
        self,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        interpolation: Interpolation = "bicubic",
    ) -> None:
        super().__init__()
        self.size = size
        self.interpolation = interpolation
        self._description = f"{size}, mean={tuple(mean)}, std={tuple(std)}, {interpolation}"
        scale = 1 / torch.tensor(std, dtype=torch.float64)
        shift = -torch.tensor(mean, dtype=torch.float64) * scale
        # Not persistent: a checkpoint holds what training changes.
        self.register_buffer("scale", _by_channel(scale), persistent=False)
        self.register_buffer("shift", _by_channel(shift), persistent=False)
        self.register_buffer("byte_scale", _by_channel(scale / 255), persistent=False)

    scale: Tensor
    shift: Tensor
    byte_scale: Tensor

    def resize(self, x: Tensor) -> Tensor:
        """Resize the images alone; bytes stay bytes."""
        square = (self.size, self.size)
        if tuple(x.shape[-2:]) == square:
            return x
        resized = interpolate(x, square, mode=self.interpolation, antialias=True)
        # Bicubic weights can be negative; torch clamps bytes itself.
        return resized if x.dtype == torch.uint8 else resized.clamp(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Resize and normalise the images."""
        x = self.resize(x)
        scale = self.byte_scale if x.dtype == torch.uint8 else self.scale
        out = torch.addcmul(self.shift, x.to(self.shift.dtype), scale)
        return out.contiguous(memory_format=torch.channels_last)  # faster convolutions

    def extra_repr(self) -> str:
        """Describe everything the result depends on."""
        return self._description


def _by_channel(values: Tensor) -> Tensor:
    return values.float().view(1, -1, 1, 1)
