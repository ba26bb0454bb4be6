"""What training sees of images: DomainBed's augmentation, a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.images import colour

SCALE = (0.7, 1.0)
"""The share of the image's area that a crop keeps."""
RATIO = (3 / 4, 4 / 3)
"""The width of a crop in heights."""
TRIES = 10
"""Crops that may fail to fit before the whole image is taken."""
JITTER = 0.3
"""How far brightness, contrast and saturation go from 1, and hue from 0."""
GREY = 0.1
"""The share of images that lose their colours."""
PIECE = 8
"""Images that a thread works on at a time: few enough for the processor's cache."""

Floats = NDArray[np.float64]

CHANGES: tuple[Callable[[Tensor, Tensor], None], ...] = (
    colour.brighten,
    colour.contrast,
    colour.saturate,
    colour.turn_hue,
)


@dataclass(frozen=True)
class Choices:
    """What chance decides for the images of a batch."""

    order: tuple[int, ...]
    """(4) of the changes of colour, one for the batch."""
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

    def part(self, rows: slice) -> Choices:
        """The choices for some of the images."""
        return Choices(
            self.order, self.boxes[rows], self.flips[rows], self.factors[rows], self.greys[rows]
        )


@dataclass(frozen=True)
class RandomView:
    """DomainBed's augmentation: bytes (n, 3, s, s) to numbers in [0, 1], (n, 3, size, size).

    A crop of 0.7 to 1 of the area, its sides 3:4 to 4:3, resized to the size; a flip in half of
    the images; brightness, contrast, saturation and hue changed by up to 0.3 in random order; grey
    in a tenth of the images. The order of the changes is one for the batch, all else is chosen per
    image. Normalisation is left to the model, which knows its own.

    On a CPU the images are dealt to as many threads as torch would use; the result is the same to
    the bit, however many there are.

    Example:
        >>> x = torch.randint(256, (2, 3, 40, 40), dtype=torch.uint8)
        >>> RandomView(32)(x, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3, 32, 32])
    """

    size: int = 224

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The images as training sees them this time."""
        choices = Choices.draw(len(x), x.shape[-1], generator)
        out = torch.empty(len(x), 3, self.size, self.size, device=x.device)
        if x.device.type != "cpu":
            _view(x, choices, out)
            return out
        pieces = [slice(start, start + PIECE) for start in range(0, len(x), PIECE)]
        _in_threads(lambda rows: _view(x[rows], choices.part(rows), out[rows]), pieces)
        return out


@dataclass(frozen=True)
class WholeView:
    """The images as they are: bytes (n, 3, s, s) to numbers in [0, 1], (n, 3, size, size)."""

    size: int = 224

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The images; nothing is left to chance."""
        return resized(x, self.size).float().div_(255)


def resized(x: Tensor, size: int) -> Tensor:
    """Images resized by an antialiased bilinear filter; bytes stay bytes where torch can do it."""
    if x.device.type != "cpu":
        x = x.float()
    return F.interpolate(x, (size, size), mode="bilinear", antialias=True).contiguous()


def _view(x: Tensor, choices: Choices, out: Tensor) -> None:
    size, flips = out.shape[-1], choices.flips.tolist()
    for row, (top, left, height, width) in enumerate(choices.boxes.tolist()):
        crop = x[row : row + 1, :, top : top + height, left : left + width]
        view = resized(crop, size)
        out[row : row + 1] = view.flip(-1) if flips[row] else view
    out.mul_(1 / 255)
    factors = choices.factors.to(out.device)
    for change in choices.order:
        CHANGES[change](out, factors[:, change])
    for row in choices.greys.nonzero()[:, 0].tolist():
        out[row] = colour.greys(out[row : row + 1])[0]


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


def _in_threads(work: Callable[[slice], None], pieces: list[slice]) -> None:
    """Do the pieces side by side, each by one thread from its beginning to its end.

    Torch's own threads would meet after each of some hundred short operations.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        for piece in pieces:
            work(piece)
        return
    try:
        for _ in _pool(threads, os.getpid()).map(work, pieces):
            pass
    finally:
        torch.set_num_threads(threads)  # a new thread of the pool changes it for all


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay, and with them the memory they have; a forked process has its own."""
    return ThreadPoolExecutor(threads, "augment", torch.set_num_threads, (1,))
