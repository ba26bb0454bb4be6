"""Small pictures as data URIs."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 96
"""Of a picture, at most."""


def photograph(path: Path) -> str:
    """The image of a file as training sees it, as a small JPEG of the same aspect.

    Raises:
        ImageError: the file cannot be read as an image.
    """
    from riskmatch.data.images.decode import in_colour, opened

    with opened(path) as image:
        image.draft("RGB", (SIDE, SIDE))  # a JPEG is decoded small at once
        colours = in_colour(image)
        colours.thumbnail((SIDE, SIDE))
        return _uri(colours, "JPEG", quality=70, optimize=True)


def digit(pixels: NDArray[Any]) -> str:
    """An array (channels, height, width) in [0, 1], or of bytes, as a PNG with whole pixels.

    One channel is grey, two are red and green, three are colours.
    """
    from PIL.Image import Resampling, fromarray

    channels, height, width = pixels.shape
    values = pixels if pixels.dtype == np.uint8 else np.clip(pixels, 0, 1) * 255
    colours = np.zeros((height, width, 3), np.uint8)
    shown = np.repeat(values, 3, 0) if channels == 1 else values[:3]
    colours[:, :, : len(shown)] = np.moveaxis(shown, 0, -1).round()
    scale = max(1, SIDE // max(height, width))
    enlarged = fromarray(colours).resize((width * scale, height * scale), Resampling.NEAREST)
    return _uri(enlarged, "PNG")


def _uri(image: Image, kind: str, **options: Any) -> str:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
