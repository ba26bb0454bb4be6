"""Images decoded once, then mapped into memory."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from riskmatch.data.images.decode import decode, opened
from riskmatch.data.images.fingerprint import content_hashes
from riskmatch.data.places import cache_folder
from riskmatch.data.progress import OnProgress
from riskmatch.files import file_lock, try_lock

FORMAT = 2
"""To be raised when the same files would be stored in another way."""
CHUNK = 32
"""Images per piece of work."""


class CacheError(OSError):
    """The cache cannot be written; the message says where and what to do."""


def cached_file(
    root: Path,
    paths: Sequence[str],
    image_size: int,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """The file of decoded images, whose name stands for what it holds.

    The first call decodes them, on all cores; later ones find them by the content of the files and
    the size asked for. Of processes that want the same images at the same time one decodes, the
    others wait. The cache appears whole or not at all.

    The side is that of the images where they are all squares of one size up to 8/7 of
    ``image_size``; else 8/7 of it (256 for 224), so that crops lose no sharpness.

    Args:
        root: of the relative ``paths``.
        paths: of the image files.
        image_size: the side of the images that training will see.
        folder: for the caches; by default one in the user's own cache.
        on_progress: told of every file.

    Raises:
        ImageError: a file cannot be read as an image.
        CacheError: the folder cannot be written, or the disk is full.
    """
    if not paths:
        raise ValueError(f"There are no images in {root}.")
    paths = sorted(paths)
    files = [root / path for path in paths]
    folder = folder or cache_folder() / "images"
    report: OnProgress = (lambda *_: None) if on_progress is None else on_progress
    waiting = partial(report, "waiting for another process", 0, None)
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        notes = folder / f"{_hash(str(root.resolve()))}.json"
        with file_lock(_lock_of(notes), waiting):
            hashes = content_hashes(root, paths, notes, report)
        key = _hash(json.dumps([FORMAT, image_size, list(zip(paths, hashes, strict=True))]))
        pixels = folder / f"{key}.rgb"
        if not pixels.exists():
            with file_lock(_lock_of(pixels), waiting):
                if not pixels.exists():  # unless another process has made it meanwhile
                    _remove_remains(folder)
                    _build(pixels, files, _side(files, image_size), report)
    return pixels


def _build(pixels: Path, files: Sequence[Path], side: int, report: OnProgress) -> None:
    row = side * side * 3
    _check_space(pixels.parent, row * len(files))
    part = pixels.with_suffix(".part")

    def fill(file: int, start: int) -> int:
        some = files[start : start + CHUNK]
        for place, image in enumerate(some, start):
            _write_at(file, decode(image, side).tobytes(), place * row)
        return len(some)

    try:
        # Threads, for Pillow decodes and resizes without holding the interpreter's lock.
        with open(part, "wb") as out, ThreadPoolExecutor(os.cpu_count()) as pool:
            done = 0
            for count in pool.map(partial(fill, out.fileno()), range(0, len(files), CHUNK)):
                done += count
                report("decoding images", done, len(files))
            os.fsync(out.fileno())
        os.replace(part, pixels)
    finally:
        part.unlink(missing_ok=True)


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def mapped(pixels: Path, images: int) -> Tensor:
    """The bytes (n, side, side, 3) of a file of n images; its size says how large they are.

    They are for reading only: the system ends a process that writes to them.
    """
    side = math.isqrt(pixels.stat().st_size // (3 * images))
    # Not torch.from_file: Linux refuses a mapping that could be written once it is larger than
    # memory, for it might have to keep all that is written.
    read_only = np.memmap(pixels, np.uint8, "r", shape=(images, side, side, 3))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(read_only)


def _side(files: Sequence[Path], image_size: int) -> int:
    largest = round(image_size * 8 / 7)
    with opened(files[0]) as image:
        width, height = image.size
    if width != height or width > largest:
        return largest
    for file in files:
        with opened(file) as image:
            if image.size != (width, height):
                return largest
    return width


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free")


def _remove_remains(folder: Path) -> None:
    """Remove what builders left that were killed; those still at work hold their locks."""
    for part in folder.glob("*.part"):
        with try_lock(_lock_of(part)) as locked:
            if locked:
                part.unlink(missing_ok=True)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Errors of the folder's disk, with their cure."""
    try:
        yield
    except OSError as error:
        cure = "name another folder in the variable XDG_CACHE_HOME"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(
                f"The disk is full: decoded images do not fit {folder} ({error.strerror}). "
                f"Free some space, or {cure}."
            ) from error
        if error.filename and Path(error.filename).is_relative_to(folder):
            raise CacheError(
                f"Decoded images cannot be kept in {folder} ({error.strerror}); {cure}."
            ) from error
        raise


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
