"""What training sees of images: DomainBed's augmentation, a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.images import colour
from riskmatch.data.images.choices import Choices

PIECE = 8
"""Images that a thread works on at a time."""


@dataclass(frozen=True)
class RandomView:
    """DomainBed's augmentation: bytes (n, 3, s, s) to numbers in [0, 1], (n, 3, size, size).

    A crop of 0.7 to 1 of the area, its sides 3:4 to 4:3, resized to the size; a flip in half of
    the images; brightness, contrast, saturation and hue changed by up to 0.3 in random order; grey
    in a tenth of the images. The order of the changes is one for the batch, all else is chosen per
    image. Normalisation is left to the model, which knows its own.

    On a CPU the images are dealt to as many threads as torch would use; the result is the same to
    the bit, however many there are. The first call there compiles what it runs, some seconds once
    after the installation.

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
        if x.device.type == "cpu":
            pieces = [range(len(x))[start : start + PIECE] for start in range(0, len(x), PIECE)]
            _in_threads(lambda rows: view_on_cpu(x, choices, rows, out), pieces)
        else:
            view_on_device(x, choices, out)
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
    return _resized(x if x.device.type == "cpu" else x.float(), size).contiguous()


def _resized(x: Tensor, size: int) -> Tensor:
    return F.interpolate(x, (size, size), mode="bilinear", antialias=True)


def view_on_device(x: Tensor, choices: Choices, out: Tensor) -> None:
    """Fill ``out`` with the views of all images, by operations on tensors of any device."""
    size, flips = out.shape[-1], choices.flips.tolist()
    for row, (top, left, height, width) in enumerate(choices.boxes.tolist()):
        view = resized(x[row : row + 1, :, top : top + height, left : left + width], size)
        out[row : row + 1] = view.flip(-1) if flips[row] else view
    out.mul_(1 / 255)
    factors = choices.factors.to(out.device)
    for change in choices.order:
        colour.CHANGES[change](out, factors[:, change])
    for row in choices.greys.nonzero()[:, 0].tolist():
        out[row] = colour.greys(out[row : row + 1])[0]


def view_on_cpu(x: Tensor, choices: Choices, rows: range, out: Tensor) -> None:
    """Fill the ``rows`` of ``out`` with the views of theirs, one after the other."""
    from riskmatch.data.images.colour_cpu import recolour

    pixels, views, size = x.permute(0, 2, 3, 1).numpy(), out.numpy(), out.shape[-1]
    order, factors = np.array(choices.order), choices.factors.numpy()
    flips, greys = choices.flips.tolist(), choices.greys.tolist()
    for row in rows:
        top, left, height, width = choices.boxes[row].tolist()
        # A copy, for torch takes twice as long to resize what lies in a larger image.
        crop = np.ascontiguousarray(pixels[row, top : top + height, left : left + width])
        view = _resized(torch.from_numpy(crop).unsqueeze(0).permute(0, 3, 1, 2), size)
        image = np.ascontiguousarray(view.permute(0, 2, 3, 1)[0].numpy())
        recolour(image, flips[row], order, factors[row], greys[row], views[row])


def _in_threads(work: Callable[[range], None], pieces: list[range]) -> None:
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
