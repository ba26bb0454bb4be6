"""What chance decides for a batch of images, as in DomainBed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SCALE = (0.7, 1.0)
"""The share of the image's area that a crop keeps."""
RATIO = (3 / 4, 4 / 3)
"""The width of a crop in heights."""
TRIES = 10
"""Crops that may fail to fit before the whole image is taken."""
CHANGES = BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
"""Of colour, by their numbers."""
JITTER = 0.3
"""How far brightness, contrast and saturation go from 1, and hue from 0."""
GREY = 0.1
"""The share of images that lose their colours."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choices:
    """What chance decides for the images of a batch."""

    order: tuple[int, ...]
    """(4) of the changes of colour, by their numbers; one for the batch."""
    boxes: Tensor
    """(n, 4) the crops: top, left, height, width."""
    flips: Tensor
    """(n)"""
    factors: Tensor
    """(n, 4) of brightness, contrast, saturation and hue."""
    greys: Tensor
    """(n)"""

    @classmethod
    def draw(cls, n: int, side: int, generator: torch.Generator) -> Choices:
        """Choices for ``n`` images of ``side`` × ``side``; more images change none of the first."""
        order = tuple(torch.randperm(len(CHANGES), generator=generator).tolist())
        chances = torch.rand(n, 2 * TRIES + 8, generator=generator, dtype=torch.float64)
        areas, ratios, corner, flip, jitter, grey = chances.split([TRIES, TRIES, 2, 1, 4, 1], 1)
        # In NumPy, for torch wakes all its threads for the few roots and powers here.
        boxes = _boxes(areas.numpy(), ratios.numpy(), corner.numpy(), side)
        neutral = torch.tensor([1.0, 1.0, 1.0, 0.0])
        return cls(
            order,
            boxes=torch.from_numpy(boxes).long(),
            flips=flip[:, 0] < 0.5,
            factors=(neutral + JITTER * (2 * jitter - 1)).float(),
            greys=grey[:, 0] < GREY,
        )


def _boxes(areas: Floats, ratios: Floats, corner: Floats, side: int) -> Floats:
    """(n, 4) the first crop of each image that fits, else all of it."""
    area = side * side * (SCALE[0] + (SCALE[1] - SCALE[0]) * areas)
    low, high = np.log(RATIO)
    ratio = np.exp(low + (high - low) * ratios)
    tried = np.sqrt(np.stack([area / ratio, area * ratio], 2)).round()
    whole = np.full((len(tried), 1, 2), side)
    sizes = np.concatenate([tried, whole], 1)  # (n, tries + 1, 2) heights and widths
    first = (sizes <= side).all(2).argmax(1)
    chosen = sizes[np.arange(len(sizes)), first]
    return np.concatenate([np.floor(corner * (side - chosen + 1)), chosen], 1)
