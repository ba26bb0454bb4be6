"""Colour changes of :mod:`~riskmatch.data.images.augment` on a CPU, compiled with numba.

As tensor operations they pass over an image about thirty times. Here blocks of pixels that fit the
L1 cache go through all changes at once, except for contrast, which needs the mean of the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.images.augment import BRIGHTNESS, CONTRAST, GREY_WEIGHTS, SATURATION

try:
    import numba
except ImportError as error:
    message = "Augmenting images on a CPU needs numba: pip install 'riskmatch[images]'."
    raise ImportError(message) from error

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Planes = tuple[Floats, Floats, Floats]
"""Red, green and blue as separate contiguous arrays, so that the compiler can vectorise."""

P = ParamSpec("P")
R = TypeVar("R")

BLOCK = 1024
"""Pixels per block."""
RED, GREEN, BLUE = (np.float32(weight) for weight in GREY_WEIGHTS)
# Python floats would promote every operation to float64.
ZERO, HALF, ONE, TWO, THREE = (np.float32(number) for number in (0, 0.5, 1, 2, 3))
STEP, TINY = np.float32(1 / 255), np.float32(1e-8)


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    def compiled(cache: bool) -> Callable[P, R]:
        compiler = numba.njit(nogil=True, fastmath=True, error_model="numpy", cache=cache)
        return cast(Callable[P, R], compiler(function))

    try:
        return compiled(cache=True)
    except RuntimeError:  # no writable cache folder: every process compiles again
        return compiled(cache=False)


@_compiled
def recolour(
    image: Bytes, flip: bool, order: NDArray[np.int64], factors: Floats, grey: bool, out: Floats
) -> None:
    """Fill ``out`` (3, h, w) with the image (h, w, 3) after a flip and the changes of colour.

    The four changes are applied in ``order`` with their ``factors``; grey is applied last.
    """
    height, width, _ = image.shape
    planes = out[0].reshape(-1), out[1].reshape(-1), out[2].reshape(-1)
    for row in range(height):
        _unpack(image[row].reshape(-1), flip, _block(planes, row * width, width))
    before = 0
    while order[before] != CONTRAST:
        before += 1
    total = 0.0
    for start in range(0, height * width, BLOCK):
        block = _block(planes, start, BLOCK)
        for change in order[:before]:
            _change(block, change, factors[change])
        total += float(_sum_of_greys(block))
    shift = np.float32((1 - factors[CONTRAST]) * total / (height * width))
    for start in range(0, height * width, BLOCK):
        block = _block(planes, start, BLOCK)
        _scale(block, factors[CONTRAST], shift)
        for change in order[before + 1 :]:
            _change(block, change, factors[change])
        if grey:
            _saturate(block, ZERO)


@_compiled
def _block(planes: Planes, start: int, size: int) -> Planes:
    red, green, blue = planes
    return red[start : start + size], green[start : start + size], blue[start : start + size]


@_compiled
def _unpack(row: Bytes, flip: bool, block: Planes) -> None:
    red, green, blue = block
    last = len(red) - 1
    if flip:
        for i in range(last, -1, -1):  # counting up, the compiler checks the sign of i
            red[i] = row[3 * (last - i)] * STEP
            green[i] = row[3 * (last - i) + 1] * STEP
            blue[i] = row[3 * (last - i) + 2] * STEP
    else:
        for i in range(len(red)):
            red[i] = row[3 * i] * STEP
            green[i] = row[3 * i + 1] * STEP
            blue[i] = row[3 * i + 2] * STEP


@_compiled
def _change(block: Planes, change: int, factor: np.float32) -> None:
    if change == BRIGHTNESS:
        _scale(block, factor, ZERO)
    elif change == SATURATION:
        _saturate(block, factor)
    else:
        _turn_hue(block, factor)


@_compiled
def _clamp(value: np.float32, low: np.float32, high: np.float32) -> np.float32:
    return min(max(value, low), high)


@_compiled
def _grey(red: np.float32, green: np.float32, blue: np.float32) -> np.float32:
    return red * RED + green * GREEN + blue * BLUE


@_compiled
def _sum_of_greys(block: Planes) -> np.float32:
    red, green, blue = block
    total = ZERO
    for i in range(len(red)):
        total += _grey(red[i], green[i], blue[i])
    return total


@_compiled
def _scale(block: Planes, factor: np.float32, shift: np.float32) -> None:
    for plane in block:
        for i in range(len(plane)):
            plane[i] = _clamp(factor * plane[i] + shift, ZERO, ONE)


@_compiled
def _saturate(block: Planes, factor: np.float32) -> None:
    red, green, blue = block
    for i in range(len(red)):
        shift = (ONE - factor) * _grey(red[i], green[i], blue[i])
        red[i] = _clamp(factor * red[i] + shift, ZERO, ONE)
        green[i] = _clamp(factor * green[i] + shift, ZERO, ONE)
        blue[i] = _clamp(factor * blue[i] + shift, ZERO, ONE)


@_compiled
def _turn_hue(block: Planes, factor: np.float32) -> None:
    red, green, blue = block
    turn = TWO * THREE * factor
    for i in range(len(red)):
        low = min(min(red[i], green[i]), blue[i])
        c = max(max(max(red[i], green[i]), blue[i]) - low, TINY)
        q = (green[i] + blue[i] - TWO * red[i]) / c
        size = THREE * HALF + q - HALF * _clamp(q, -ONE, ONE)
        hue = (size if green[i] >= blue[i] else -size) + turn
        red[i] = low - c + c * _bump(hue)
        green[i] = low - c + c * _bump(hue - TWO)
        blue[i] = low - c + c * _bump(hue + TWO)


@_compiled
def _bump(distance: np.float32) -> np.float32:
    return _clamp(abs(abs(distance) - THREE), ONE, TWO)
