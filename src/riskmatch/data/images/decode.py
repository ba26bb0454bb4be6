"""Decode image files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.images.index import FORMATS
from riskmatch.files import check_regular
from riskmatch.validation import from_extra

if TYPE_CHECKING:
    from PIL.Image import Image


MAX_PIXELS = 178_956_970
"""Most pixels of an image, by which Pillow too refuses to decode one."""


class ImageError(ValueError):
    """A file is not an image, or is damaged."""


def decode(path: Path, side: int) -> NDArray[np.uint8]:
    """The image as (side, side, 3) uint8 RGB, converted by :func:`to_rgb`.

    EXIF orientation is ignored, as in DomainBed. An image of another size is resized, ignoring its
    aspect ratio, with Pillow's antialiased bilinear filter.

    Raises:
        ImageError: the file cannot be read as an image.
    """
    with opened(path) as image:
        rgb = to_rgb(image)
        if rgb.size != (side, side):
            from PIL.Image import Resampling

            rgb = rgb.resize((side, side), Resampling.BILINEAR)
        return np.asarray(rgb)


def to_rgb(image: Image) -> Image:
    """The image as 8-bit RGB.

    Grey, palette and CMYK images are converted as in DomainBed. Transparent pixels are composited
    on white: drawings that use only transparency would be all black otherwise. Grey images of
    other depth are scaled: 16 bits to their upper eight, floating point from [0, 1].

    Raises:
        ValueError: the value of white is unknown: floating point outside [0, 1], or 32-bit
            integers.
    """
    from PIL import Image

    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_to_eight_bits(image))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _to_eight_bits(image: Image) -> NDArray[np.uint8]:
    cure = "save it with 8 or 16 bits"
    if image.mode == "I" and image.format not in ("PNG", "PPM"):  # there it means 16 bits
        raise ValueError(f"it has 32 bits per pixel, so the value of white is unknown; {cure}")
    values = np.asarray(image)
    if image.mode != "F":
        return np.asarray(values >> 8, np.uint8)
    if not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(f"it has floating-point values below 0 or above 1; {cure}")
    return np.asarray(np.rint(values * 255), np.uint8)


@contextmanager
def opened(path: Path) -> Iterator[Image]:
    """An image file with only its header read; errors name the file."""
    check_pillow()
    from PIL import Image, UnidentifiedImageError

    try:
        check_regular(path)
        with open_image(path) as image:
            yield image
    except FileNotFoundError:
        raise
    # The errors that Pillow's decoders raise on truncated or corrupt files.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        unknown = isinstance(error, UnidentifiedImageError)
        raise ImageError(
            f"{path} cannot be read as an image ({'unknown image format' if unknown else error}). "
            "Remove or replace it. Training and `riskmatch embed` leave such files out with "
            "--skip-unreadable; `riskmatch data doctor` lists every one of a data set."
        ) from error


def open_image(file: Path | IO[bytes]) -> Image:
    """An image in one of ``FORMATS`` and of at most :data:`MAX_PIXELS`, not yet decoded.

    Of the other formats that Pillow reads, some start other programs on the file.

    Raises:
        PIL.UnidentifiedImageError: it has another format.
        PIL.Image.DecompressionBombError: it has more pixels.
    """
    from PIL import Image

    image = Image.open(file, formats=tuple(FORMATS))
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise Image.DecompressionBombError(f"{image.width:,}×{image.height:,} pixels")
    return image


def check_pillow() -> None:
    """Raise ``ImportError`` with the cure where Pillow is missing."""
    with from_extra("images", "Reading images"):
        import PIL  # noqa: F401
