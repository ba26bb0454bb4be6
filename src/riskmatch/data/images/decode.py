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
    """The image as (side, side, 3) bytes: red, green, blue, as :func:`in_colour` has them.

    The camera's note on orientation is left alone, as in DomainBed. An image of another size is
    resized, its aspect too, by Pillow's bilinear filter, which is antialiased.

    Raises:
        ImageError: the file cannot be read as an image.
    """
    with opened(path) as image:
        colours = in_colour(image)
        if colours.size != (side, side):
            from PIL.Image import Resampling

            colours = colours.resize((side, side), Resampling.BILINEAR)
        return np.asarray(colours)


def in_colour(image: Image) -> Image:
    """The image in red, green and blue of eight bits each.

    Greys, palettes and colours for print are converted as in DomainBed, which does no more. What
    is transparent lies on white, lest a drawing in transparency alone be all black. Greys of other
    depth are scaled: of 16 bits the upper eight are taken, of floating numbers 0 is black and 1 is
    white.

    Raises:
        ValueError: the numbers of the pixels do not tell which is white: floating ones beyond
            [0, 1], or whole ones of 32 bits.
    """
    from PIL import Image

    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_in_eight_bits(image))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _in_eight_bits(image: Image) -> NDArray[np.uint8]:
    cure = "save it with 8 or 16 bits"
    if image.mode == "I" and image.format not in ("PNG", "PPM"):  # where it stands for 16 bits
        raise ValueError(f"it has 32 bits per pixel, and no number is known for white; {cure}")
    values = np.asarray(image)
    if image.mode != "F":
        return np.asarray(values >> 8, np.uint8)
    if not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(f"it has floating numbers below 0 or above 1; {cure}")
    return np.asarray(np.rint(values * 255), np.uint8)


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
