"""From an image file to pixels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image


class ImageError(ValueError):
    """A file is not an image, or not a whole one."""


def decode(path: Path, side: int) -> NDArray[np.uint8]:
    """The image as (side, side, 3) bytes: red, green, blue.

    Greys, palettes and transparency become plain colours, and the camera's note on orientation is
    left alone, as in DomainBed. An image of another size is resized, its aspect too, by Pillow's
    bilinear filter, which is antialiased.

    Raises:
        ImageError: the file cannot be read as an image.
    """
    with opened(path) as image:
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")  # straight to RGB gives the same, with a warning
        colours = image.convert("RGB")
        if colours.size != (side, side):
            from PIL.Image import Resampling

            colours = colours.resize((side, side), Resampling.BILINEAR)
        return np.asarray(colours)


@contextmanager
def opened(path: Path) -> Iterator[Image]:
    """The image of a file, of which only the head has been read; errors name the file."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            "Reading images needs Pillow: pip install 'riskmatch[images]'."
        ) from error
    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError:
        raise
    except UnidentifiedImageError as error:
        raise _broken(path, "no known image format") from error
    # What Pillow's decoders raise on bytes that end early or make no sense.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _broken(path, str(error)) from error


def _broken(path: Path, reason: str) -> ImageError:
    return ImageError(
        f"{path} cannot be read as an image ({reason}). Remove or replace it; "
        "`riskmatch data doctor` on its data set names every such file."
    )
