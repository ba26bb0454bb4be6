"""One look at each file: its bytes are read once and decoded in full."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from riskmatch.data.doctor.fingerprint import fingerprint
from riskmatch.data.doctor.signature import ENDINGS, HEAD, content_of
from riskmatch.data.images.decode import in_colour

if TYPE_CHECKING:
    from PIL.Image import Image

SLICE = 256
"""Files that are handed to the threads at a time."""
EMPTY, TOO_LARGE = "zero bytes", "more pixels than Pillow decodes"
REFUSED = "colours that the loader refuses"
"""Errors that have a cure of their own."""
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}


class Look(NamedTuple):
    """What one file is."""

    content: bytes
    """A digest of its bytes; empty where there are none or they may not be read."""
    holds: str
    """The format of an image, or what else it is, in words."""
    error: str | None = None
    """Why it could not be decoded; None where it was."""
    cut: bool = False
    """Whether the error is that its end is missing."""
    size: tuple[int, int] = (0, 0)
    """Width and height."""
    mode: str = ""
    """Pillow's name for its channels and their depth."""
    transparent: bool = False
    """Whether one of its points is, at least in part."""
    pixels: bytes = b""
    """A digest of what the loader makes of it."""
    hash: int = 0
    thumbnail: bytes = b""
    """Empty where the picture is of one colour; see ``fingerprint``."""

    @property
    def deep(self) -> bool:
        """Whether it has more than 8 bits per channel."""
        return self.mode.startswith(("I", "F"))


def look(path: Path) -> Look:
    """Read and decode a file."""
    from PIL import Image, UnidentifiedImageError

    try:
        data = path.read_bytes()
    except OSError as error:
        return Look(b"", "nothing", error=error.strerror or str(error))
    if not data:
        return Look(b"", "nothing", error=EMPTY)
    content, holds = _digest(data), content_of(data[:HEAD])
    try:
        with Image.open(BytesIO(data)) as image:
            image.load()
            return _seen(content, holds if holds in ENDINGS else str(image.format), image)
    except _NotColours as error:
        return Look(content, holds, error=f"{REFUSED} ({error})")
    except Image.DecompressionBombError as error:
        return Look(content, holds, error=f"{TOO_LARGE}: {error}")
    except Exception as error:  # decoders raise what they like on damaged bytes
        known = holds in ENDINGS
        cut = known and ("truncated" in str(error) or not data.endswith(_ENDS.get(holds, b"")))
        reason = str(error) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = "its head makes no sense"  # Pillow gives an address in memory instead
        return Look(content, holds, error=reason, cut=cut)


def look_at_all(paths: Sequence[Path], jobs: int | None = None) -> Iterator[Look]:
    """A look at each file, in order, in ``jobs`` threads: Pillow decodes outside Python's lock."""
    need_pillow()
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as threads:
        for start in range(0, len(paths), SLICE):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's: what matters is in the findings
                seen = list(threads.map(look, paths[start : start + SLICE]))
            yield from seen


def need_pillow() -> None:
    """Raise ``ImportError`` with the cure where Pillow is missing."""
    if find_spec("PIL") is None:
        raise ImportError("Examining images needs Pillow: pip install 'riskmatch[images]'.")


class _NotColours(ValueError):
    """The loader cannot tell the colours."""


def _seen(content: bytes, holds: str, image: Image) -> Look:
    try:
        plain = in_colour(image)
    except ValueError as error:
        raise _NotColours(str(error)) from error
    hash, thumbnail = fingerprint(plain) or (0, b"")
    return Look(
        content,
        holds,
        size=image.size,
        mode=image.mode,
        transparent=image.has_transparency_data and _lowest_alpha(image) < 255,
        pixels=_digest(f"{plain.size}".encode() + plain.tobytes()),
        hash=hash,
        thumbnail=thumbnail,
    )


def _lowest_alpha(image: Image) -> int:
    return int(np.asarray(image.convert("RGBA").getchannel("A")).min())


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
