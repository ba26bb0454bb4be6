"""Inspect single image files: read once, decode in full, check."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.images.decode import check_pillow, open_image, to_rgb
from riskmatch.data.images.index import FORMATS
from riskmatch.files import read_file, sha256

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_SIDE = 16
"""Pixels of a side below which an image shows little."""
MAX_SIDE = 8_000
"""Pixels of a side above which decoding needs much time and memory."""
MAX_ASPECT = 8
"""Ratio of the sides from which a square crop loses nearly all of the image."""
SCALE_DOWN = f"Scale it down to sides of at most {MAX_SIDE:,} pixels."
SAVE_AS_RGB = "Save it as 8-bit RGB."
REPLACE = "Get the file again, or delete it."
CHUNK = 256
"""Files given to the threads at a time."""
HEADER = 512
"""Bytes from which the format is detected."""
THUMBNAIL = (16, 16, 3)
FLAT = 2.0
"""Standard deviation of a thumbnail, in grey levels, below which only noise would be compared."""

_SIGNATURES = (
    (rb"\xff\xd8\xff", "JPEG"),
    (rb"\x89PNG\r\n\x1a\n", "PNG"),
    (rb"GIF8[79]a", "GIF"),
    (rb"II\*\0|MM\0\*", "TIFF"),
    (rb"%PDF-", "a PDF document"),
    (rb"PK\x03\x04", "a zip archive"),
    (rb"\x1f\x8b", "a gzip archive"),
    (rb"RIFF.{4}WEBP", "WEBP"),
    # "BM" may start a text too, so the size of the second header is checked.
    (rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\0\0\0", "BMP"),
    # For the same reason width and height, which comments may precede.
    (rb"P[1-6]\s+(#[^\n]*\n\s*)*\d+\s+(#[^\n]*\n\s*)*\d+\s", "PPM"),
)
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}


def detect_format(header: bytes) -> str:
    """One of ``FORMATS``, or a description of other content, from the first bytes of a file.

    Example:
        >>> detect_format(b"GIF89a..."), detect_format(b"<html>404</html>"), detect_format(bytes(9))
        ('GIF', 'text', 'unknown data')
    """
    for pattern, format_ in _SIGNATURES:
        if re.match(pattern, header, re.DOTALL):
            return format_
    try:
        text = header[: HEADER - 4].decode()  # the last UTF-8 character may be cut
    except UnicodeDecodeError:
        return "unknown data"
    plain = all(character.isprintable() or character.isspace() for character in text)
    return "text" if plain and text.strip() else "unknown data"


class Problem(NamedTuple):
    """Why a file cannot be decoded: a fault."""

    kind: str
    message: str
    cure: str = REPLACE


class Inspection(NamedTuple):
    """What one file contains."""

    content: str
    """Digest of the bytes; empty where there are none or they cannot be read."""
    format: str
    """Format of the image, or a description of other content."""
    problem: Problem | None = None
    """Why it cannot be decoded; None where it can."""
    size: tuple[int, int] = (0, 0)
    """Width and height."""
    mode: str = ""
    """Pillow's name of the channels and their depth."""
    pixels: str = ""
    """Digest of the pixels that the loader would give."""
    hash: int = 0
    """Perceptual hash; see :func:`signature`."""
    thumbnail: bytes = b""
    """Thumbnail as bytes; empty where the image has one colour."""


def inspect_file(path: Path) -> Inspection:
    """Read and decode a file."""
    from PIL import Image, UnidentifiedImageError

    try:
        data = read_file(path)
    except OSError as error:
        message = f"cannot be opened ({error.strerror or error})"
        cure = "Repair the link or the permissions, or delete it."
        return Inspection("", "nothing", Problem("unreadable", message, cure))
    if not data:
        return Inspection("", "nothing", Problem("empty", "has zero bytes"))
    content, format_ = sha256(data), detect_format(data[:HEADER])
    try:
        with open_image(BytesIO(data)) as image:
            image.load()
            try:
                rgb = to_rgb(image)
            except ValueError as error:
                message = f"has colours that the loader refuses ({error})"
                return Inspection(content, format_, Problem("odd-colours", message, SAVE_AS_RGB))
            hash_, thumbnail = signature(rgb) or (0, b"")
            return Inspection(
                content,
                format_ if format_ in FORMATS else str(image.format),
                size=image.size,
                mode=image.mode,
                pixels=sha256(f"{rgb.size}", rgb.tobytes()),
                hash=hash_,
                thumbnail=thumbnail,
            )
    except Image.DecompressionBombError as error:
        message = f"has more pixels than Pillow decodes: {error}"
        problem = Problem("huge-image", message, SCALE_DOWN)
    except Exception as error:  # decoders raise many types on corrupt data
        reason = str(error) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = "its header is invalid"  # Pillow's message is a memory address
        if format_ not in FORMATS:
            problem = Problem("no-image", f"is not an image but {format_}")
        elif "truncated" in reason or not data.endswith(_ENDS.get(format_, b"")):
            message = f"is a {format_} image whose end is missing ({reason})"
            problem = Problem("truncated", message)
        else:
            message = f"is a {format_} image that cannot be decoded ({reason})"
            problem = Problem("damaged", message)
    return Inspection(content, format_, problem)


def inspect_files(paths: Iterable[Path], jobs: int | None = None) -> Iterator[Inspection]:
    """Inspect files in order, in ``jobs`` threads: Pillow decodes without the interpreter lock."""
    check_pillow()
    paths = iter(paths)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as threads:
        while chunk := list(islice(paths, CHUNK)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # findings report what Pillow warns about
                inspections = list(threads.map(inspect_file, chunk))
            yield from inspections


def signature(rgb: Image) -> tuple[int, bytes] | None:
    """Perceptual hash and thumbnail of an image; None where it has one colour."""
    from PIL.Image import Resampling

    thumbnail = np.asarray(rgb.resize(THUMBNAIL[:2], Resampling.BOX))
    if thumbnail.std() < FLAT:
        return None
    grey = rgb.resize((32, 32), Resampling.BOX).convert("L")
    return perceptual_hash(np.asarray(grey)), thumbnail.tobytes()


def perceptual_hash(grey: NDArray[Any]) -> int:
    """64-bit hash of a (32, 32) image that scaling and compression hardly change.

    Each bit says whether a coefficient of the discrete cosine transform exceeds their median. The
    coefficients are those below 8 × 8, with (8, 0) in place of the constant.
    """
    spectrum = dctn(grey.astype(np.float64))
    lowest = np.append(spectrum[:8, :8].ravel()[1:], spectrum[8, 0])
    return int.from_bytes(np.packbits(lowest > np.median(lowest)).tobytes(), "big")


def check_file(path: str, domain: str, file: Inspection) -> Iterator[Finding]:
    """Findings about one file."""

    def finding(type_: str, severity: Severity, message: str, cure: str) -> Finding:
        return Finding(type_, severity, message, cure, path=path, domain=domain)

    if file.problem is not None:
        yield finding(file.problem.kind, "fault", file.problem.message, file.problem.cure)
        return
    name = PurePosixPath(path)
    extensions = FORMATS.get(file.format, (f".{file.format.lower()}",))
    if name.suffix.lower() not in extensions:
        right = name.with_suffix(extensions[0])
        message = f"has the extension of {_format_of(name.suffix)} but is a {file.format} image"
        yield finding("wrong-extension", "warning", message, f"Rename it to {right}.")
    width, height = file.size
    if min(file.size) < MIN_SIDE:
        message = f"is only {width}×{height} pixels"
        yield finding("tiny-image", "warning", message, "Get a larger one, or delete it.")
    elif max(file.size) > MAX_SIDE:
        yield finding("huge-image", "warning", f"is {width:,}×{height:,} pixels", SCALE_DOWN)
    if max(file.size) >= MAX_ASPECT * min(file.size):
        message = f"is {width}×{height} pixels, a narrow strip"
        yield finding("elongated", "warning", message, "Crop it to its subject, or delete it.")
    if file.mode == "CMYK":
        message = "is CMYK, which libraries convert to RGB differently"
        yield finding("odd-colours", "warning", message, SAVE_AS_RGB)
    elif file.mode.startswith(("I", "F")) and not file.thumbnail:
        message = f"has more than 8 bits ({file.mode}), but one colour after conversion"
        yield finding("odd-colours", "warning", message, "Scale its values to their full range.")


def _format_of(suffix: str) -> str:
    formats = [name for name, extensions in FORMATS.items() if suffix.lower() in extensions]
    return f"a {formats[0]} image" if formats else "no image"
