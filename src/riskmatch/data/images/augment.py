"""DomainBed's image augmentation, for whole batches."""

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

SCALE = (0.7, 1.0)
"""Range of the share of the area that a crop keeps."""
RATIO = (3 / 4, 4 / 3)
"""Range of width / height of a crop."""
TRIES = 10
"""Random crops that may fail to fit before the whole image is used."""
JITTER = 0.3
"""Largest deviation of the brightness, contrast and saturation factors from 1, of hue from 0."""
GREY_SHARE = 0.1
"""Share of images that become grey."""
GREY_WEIGHTS = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R BT.601, as torchvision rounds them)."""
CHUNK = 4
"""Images per task of a thread: few enough for the processor's cache."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RandomView:
    """DomainBed's augmentation: uint8 (n, 3, s, s) to float32 in [0, 1], (n, 3, size, size).

    A crop of 0.7 to 1 of the area with aspect ratio 3:4 to 4:3, resized; a flip of half of the
    images; brightness, contrast, saturation and hue changed by up to 0.3 in random order; grey for
    a tenth of the images. The order of the changes is one for the batch, everything else is drawn
    per image. Normalisation is left to the model.

    On a CPU, images are distributed over as many threads as torch uses, with bitwise the same
    result for any number of threads.

    Example:
        >>> x = torch.randint(256, (2, 3, 40, 40), dtype=torch.uint8)
        >>> RandomView(32)(x, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3, 32, 32])
    """

    size: int = 224

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A random view of each image."""
        draws = AugmentationDraws.draw(len(x), x.shape[-1], generator)
        out = torch.empty(len(x), 3, self.size, self.size, device=x.device)
        size = CHUNK if x.device.type == "cpu" else len(x)
        chunks = [slice(start, start + size) for start in range(0, len(x), size)]
        _in_threads(lambda rows: _fill(out[rows], x[rows], draws, rows), chunks)
        return out


@dataclass(frozen=True)
class WholeView:
    """Images resized only: uint8 (n, 3, s, s) to float32 in [0, 1], (n, 3, size, size)."""

    size: int = 224

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The resized images; the generator is not used."""
        return resized(x, self.size).float().div_(255)


@dataclass(frozen=True)
class AugmentationDraws:
    """Random numbers of the augmentation of a batch."""

    order: tuple[int, ...]
    """(4,) order of the colour changes."""
    boxes: Tensor
    """(n, 4) crops: top, left, height, width."""
    flips: Tensor
    """(n,) whether to flip."""
    factors: Tensor
    """(n, 4) factors of brightness, contrast, saturation and hue."""
    greys: Tensor
    """(n,) whether to make grey."""

    @classmethod
    def draw(cls, n: int, side: int, generator: torch.Generator) -> AugmentationDraws:
        """Draws for ``n`` images of ``side`` × ``side``; the first rows do not depend on ``n``."""
        order = tuple(torch.randperm(len(CHANGES), generator=generator).tolist())
        uniform = torch.rand(n, 2 * TRIES + 8, generator=generator, dtype=torch.float64)
        areas, ratios, corner, flip, jitter, grey = uniform.split([TRIES, TRIES, 2, 1, 4, 1], 1)
        # NumPy, because torch would start all its threads for these few operations.
        boxes = _boxes(areas.numpy(), ratios.numpy(), corner.numpy(), side)
        neutral = torch.tensor([1.0, 1.0, 1.0, 0.0])
        return cls(
            order,
            boxes=torch.from_numpy(boxes).long(),
            flips=flip[:, 0] < 0.5,
            factors=(neutral + JITTER * (2 * jitter - 1)).float(),
            greys=grey[:, 0] < GREY_SHARE,
        )


def _boxes(areas: Floats, ratios: Floats, corner: Floats, side: int) -> Floats:
    """(n, 4) the first random crop of each image that fits, else the whole image."""
    area = side * side * (SCALE[0] + (SCALE[1] - SCALE[0]) * areas)
    low, high = np.log(RATIO)
    ratio = np.exp(low + (high - low) * ratios)
    tried = np.sqrt(np.stack([area / ratio, area * ratio], 2)).round()
    whole = np.full((len(tried), 1, 2), side)
    sizes = np.concatenate([tried, whole], 1)  # (n, tries + 1, 2) heights and widths
    first = (sizes <= side).all(2).argmax(1)
    chosen = sizes[np.arange(len(sizes)), first]
    return np.concatenate([np.floor(corner * (side - chosen + 1)), chosen], 1)


def resized(x: Tensor, size: int) -> Tensor:
    """Images resized by an antialiased bilinear filter; uint8 stays uint8 on a CPU."""
    x = x if x.device.type == "cpu" else x.float()
    return F.interpolate(x, (size, size), mode="bilinear", antialias=True).contiguous()


def _fill(out: Tensor, x: Tensor, draws: AugmentationDraws, rows: slice) -> None:
    """Fill ``out`` with the views of the images ``x``, which are ``rows`` of the batch."""
    flips = draws.flips[rows].tolist()
    for row, (top, left, height, width) in enumerate(draws.boxes[rows].tolist()):
        crop = x[row : row + 1, :, top : top + height, left : left + width]
        # A copy: torch takes twice as long to resize a view of a larger image.
        view = resized(crop.contiguous(memory_format=torch.channels_last), out.shape[-1])
        out[row : row + 1] = view.flip(-1) if flips[row] else view
    out.mul_(1 / 255)
    factors = draws.factors[rows].to(out.device)
    for change in draws.order:
        CHANGES[change](out, factors[:, change])
    for row in draws.greys[rows].nonzero()[:, 0].tolist():
        out[row] = greys(out[row : row + 1])[0]


def _in_threads(work: Callable[[slice], None], chunks: list[slice]) -> None:
    """Process chunks in parallel, each in one thread.

    Torch's own threads would synchronise after each of some hundred short operations.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(chunks) == 1:
        for chunk in chunks:
            work(chunk)
        return
    try:
        for _ in _pool(threads, os.getpid()).map(work, chunks):
            pass
    finally:
        torch.set_num_threads(threads)  # a new thread of the pool changes it globally


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Persistent threads, which reuse their memory; a forked process gets its own."""
    return ThreadPoolExecutor(threads, "augment", torch.set_num_threads, (1,))


# Colour changes in place on images (n, 3, h, w) in [0, 1], with one factor (n,) per image. Each
# does what torchvision does to one image, clamping included.


def brighten(x: Tensor, factor: Tensor) -> None:
    """Scale the values."""
    x.mul_(_per_image(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> None:
    """Scale the difference of the values from the image's mean grey."""
    grey = x.mean((2, 3)) @ x.new_tensor(GREY_WEIGHTS)
    x.mul_(_per_image(factor)).add_(_per_image((1 - factor) * grey)).clamp_(0, 1)


def saturate(x: Tensor, factor: Tensor) -> None:
    """Scale the difference of the values from the pixel's grey; factor 0 gives grey."""
    torch.lerp(x, greys(x), _per_image(1 - factor), out=x).clamp_(0, 1)


def greys(x: Tensor) -> Tensor:
    """(n, 1, h, w) grey values of the pixels."""
    red, green, blue = x.unbind(1)
    r, g, b = GREY_WEIGHTS
    return (red * r).add_(green, alpha=g).add_(blue, alpha=b).unsqueeze(1)


def turn_hue(x: Tensor, factor: Tensor) -> None:
    """Shift the hue by ``factor`` turns, |factor| ≤ 1/3; value and saturation stay.

    With low, high the extreme values of a pixel and c = high − low, the hue h ∈ [−3, 3], in sixths
    of a turn from red, has the sign of green − blue, and |h| is piecewise linear in
    q = (green + blue − 2 red)/c:  |h| = 3/2 + q − clamp(q, −1, 1)/2.  Conversely, a channel at
    distance d from its position on the circle (red 0, green 2, blue −2) is
    low + c clamp(2 − d, 0, 1), where 2 − d = |z| − 1 with z = |h − position| − 3; this holds for
    one turn and a sixth beyond. The formula needs no branches, which would dominate the cost.
    """
    red, green, blue = x.unbind(1)
    low = torch.minimum(red, green)
    torch.minimum(low, blue, out=low)
    c = torch.maximum(red, green)
    torch.maximum(c, blue, out=c).sub_(low).clamp_min_(1e-8)
    q = (green + blue).sub_(red, alpha=2).div_(c)
    hue = q.sub_(q.clamp(-1, 1), alpha=0.5).add_(1.5)
    torch.copysign(hue, green - blue, out=hue)
    # In place from here: writing to new memory takes twice as long.
    positions = x.new_tensor([0.0, 2.0, -2.0]).view(1, 3, 1, 1) - 6 * _per_image(factor)
    bump = torch.sub(hue.unsqueeze(1), positions, out=x).abs_().sub_(3).abs_().clamp_(1, 2)
    bump.mul_(c.unsqueeze(1)).add_(low.sub_(c).unsqueeze(1))


CHANGES = (brighten, contrast, saturate, turn_hue)
"""The colour changes, in the order of their factors."""


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
