"""Decode images once into a memory-mapped file, and make domains of it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.domain import Domain, DomainSet, StoredImages
from riskmatch.data.images.augment import RandomView, WholeView
from riskmatch.data.images.decode import ImageError, decode, opened
from riskmatch.data.images.index import ImageIndex
from riskmatch.data.splits import group_ids
from riskmatch.files import (
    CACHE,
    SETTLED,
    Stamp,
    file_lock,
    file_stamp,
    read_file,
    sha256,
    try_lock,
    user_folder,
    write_whole,
)
from riskmatch.validation import listed

FORMAT = 2
"""Version of the cache format; raise it when the same files would be stored differently."""
CHUNK = 32
"""Images per task of a thread."""
BLOCK = 8 << 20
"""Bytes of decoded images per checksum."""
WAITING = "waiting for another process"
_Stamps = dict[str, tuple[int, int, int, int, str]]
FILLED = 0.9
"""Share of the free space that decoded images may take where no folder was chosen."""
SAMPLED = 8
"""Blocks that are checked where nothing suggests that the file has changed."""


class CacheError(OSError):
    """The cache cannot be written; the message names the folder and the cure."""


def image_domains(
    index: ImageIndex,
    image_size: int = 224,
    augment: bool = True,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The domains of an index; images are read from the cache on access.

    Evaluation uses the bytes of the cache, (n, 3, side, side), which every backbone resizes and
    normalises itself; training uses values in [0, 1], (n, 3, image_size, image_size).

    Args:
        index: the images.
        image_size: side of the images that training uses, in pixels.
        augment: whether to augment as DomainBed
            (:class:`~riskmatch.data.images.augment.RandomView`); otherwise images are only resized.
        cache: folder of decoded images; see :func:`cached_file`.
        on_progress: called for every image that is decoded.

    Raises:
        ValueError: an option has an invalid value, or a file is not an image.
    """
    if image_size < 1:
        raise ValueError(f"image_size must be a positive integer, got {image_size}.")
    pixels, content, hashes = decoded_images(
        index.root, index.paths, image_size, cache, on_progress
    )
    row_of = {path: row for row, path in enumerate(sorted(index.paths))}
    rows = torch.tensor([row_of[path] for path in index.paths])
    contents = [_hash(f"{FORMAT} {pixels.shape[1]} {digest}") for digest in hashes]
    images = StoredImages(pixels, rows, content=content, contents=contents)
    return DomainSet(
        index.name,
        index_domains(index, images),
        classes=index.classes,
        class_names=index.class_names,
        augment=RandomView(image_size) if augment else WholeView(image_size),
    )


def index_domains(index: ImageIndex, images: StoredImages | None = None) -> tuple[Domain, ...]:
    """The domains of image files, with the images as inputs, or with their positions."""
    x = torch.arange(len(index)) if images is None else images
    groups = group_ids(index.groups) if index.groups else None
    ranks = torch.tensor(index.ranks) if index.ranks else None
    whole = Domain("all", x, torch.tensor(index.labels), groups=groups, ranks=ranks)
    places = np.array(index.domains)
    rows = [torch.from_numpy(np.flatnonzero(places == k)) for k in range(len(index.domain_names))]
    pairs = zip(index.domain_names, rows, strict=True)
    return tuple(replace(whole.take(own), name=name) for name, own in pairs)


class DecodedOnAccess:
    """Pixels of image files, decoded at every access, with what a mapped file of them offers.

    Args:
        files: the image files.
        side: side of the decoded images in pixels.
    """

    dtype = torch.uint8

    def __init__(self, files: Sequence[Path], side: int) -> None:
        self._files = files
        self.shape = len(files), side, side, 3

    def __len__(self) -> int:
        return len(self._files)

    def numpy(self) -> DecodedOnAccess:
        """The same: it is indexed as an array."""
        return self

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        files = (self._files[row] for row in rows.tolist())
        images = _readers(os.getpid()).map(lambda file: decode(file, self.shape[1]), files)
        return np.stack([*images]) if len(rows) else np.empty((0, *self.shape[1:]), np.uint8)


@cache
def _readers(process: int) -> ThreadPoolExecutor:
    """Threads that decode, which a forked process does not inherit."""
    return ThreadPoolExecutor(os.cpu_count(), "decode")


def decoded_images(
    root: Path,
    paths: Sequence[str],
    image_size: int,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Tensor | DecodedOnAccess, str, list[str]]:
    """The pixels (n, side, side, 3) of the sorted paths, and the hashes of all and of each file.

    They are mapped from :func:`cached_file`. They are decoded at every access instead with
    ``--cache off``; and where no folder was chosen and the disk has no room for the file, with a
    warning. The pixels are the same.
    """
    paths, report = sorted(paths), no_progress if on_progress is None else on_progress
    chosen = folder or user_folder("cache") / "images"
    with _explained(chosen):
        file, hashes = _keyed(root, paths, image_size, chosen, report)
        files, choice = [root / path for path in paths], os.environ.get(CACHE) or "auto"
        on_access = choice == "off"
        if choice == "auto" and folder is None and not file.exists():
            needed = 3 * _side(files, image_size) ** 2 * len(files)
            free = shutil.disk_usage(chosen).free
            if on_access := needed > FILLED * free:
                warnings.warn(
                    f"Decoded images take {needed / 1e9:,.1f} GB, and {chosen} has "
                    f"{free / 1e9:,.1f} GB free: images are decoded at every use, which takes "
                    "longer. Choose a folder on another disk with --cache FOLDER "
                    f"({CACHE}=FOLDER).",
                    stacklevel=2,
                )
        if on_access:
            return DecodedOnAccess(files, _side(files, image_size)), file.stem, hashes
        _complete(file, files, image_size, report)
    return map_pixels(file, len(paths)), file.stem, hashes


def cached_file(
    root: Path,
    paths: Sequence[str],
    image_size: int,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """The file of decoded images, named by a hash of its content.

    The first call decodes the images on all cores; later calls find them by the content of the
    files and ``image_size``, check them by size and checksums, and decode them again, with a
    warning, where they are damaged. Of several processes that need the same images, one decodes
    and the others wait. The file appears only once it is complete.

    Images that are all squares of one size, up to 8/7 of ``image_size``, are stored at that size;
    others are resized to 8/7 of it (256 for 224), so that crops keep their sharpness.

    Args:
        root: root of the relative ``paths``.
        paths: image files.
        image_size: side of the images that training uses.
        folder: folder of the caches; by default one in the user's cache.
        on_progress: called for every file.

    Raises:
        ImageError: a file cannot be read as an image.
        CacheError: the folder cannot be written, or the disk is full.
    """
    paths, report = sorted(paths), no_progress if on_progress is None else on_progress
    folder = folder or user_folder("cache") / "images"
    with _explained(folder):
        file, _ = _keyed(root, paths, image_size, folder, report)
        _complete(file, [root / path for path in paths], image_size, report)
    return file


def _keyed(
    root: Path, paths: Sequence[str], image_size: int, folder: Path, report: OnProgress
) -> tuple[Path, list[str]]:
    """The place of the decoded images of sorted paths, and the hash of each image file."""
    if not paths:
        raise ValueError(f"There are no images in {root}.")
    hashes = _hashes(root, paths, folder, report)
    key = _hash(json.dumps([FORMAT, image_size, list(zip(paths, hashes, strict=True))]))
    return folder / f"{key}.rgb", hashes


def _complete(pixels: Path, files: Sequence[Path], image_size: int, report: OnProgress) -> None:
    """Decode the images into the file, unless it is there and intact."""
    if _fault(pixels) is None:
        return
    with file_lock(_lock_of(pixels), partial(report, WAITING, 0, None)):
        if fault := _fault(pixels):
            warnings.warn(f"{pixels} is damaged and made again: {fault}.", stacklevel=2)
        if fault is not None:  # another process may have finished in the meantime
            _remove_abandoned(pixels.parent)
            _build(pixels, files, _side(files, image_size), report)
            blocks = math.ceil(pixels.stat().st_size / BLOCK)
            _write_checksums(pixels, [_checksum(pixels, k) for k in range(blocks)])


def readable(
    index: ImageIndex, cache: Path | None = None, on_progress: OnProgress | None = None
) -> ImageIndex:
    """The index without the images that cannot be read, which a warning lists.

    Files that have not changed since an earlier call are not read again.
    """
    folder, report = cache or user_folder("cache") / "images", on_progress or no_progress
    bad = [path for path in index.paths if not os.access(index.root / path, os.R_OK)]
    left = index.without(bad)

    def damaged(path: str) -> bool:
        try:
            decode(index.root / path, 1)
        except (ImageError, OSError):
            return True
        return False

    with _explained(folder):
        hashes = _hashes(index.root, left.paths, folder, report)
        known = folder / f"{_hash(' '.join(hashes))}.unreadable"
        if not known.exists():
            report("checking images", 0, None)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                faults = [*pool.map(damaged, left.paths)]
            write_whole(known, json.dumps(faults).encode())
        faults = json.loads(read_file(known))
    bad += [path for path, fault in zip(left.paths, faults, strict=True) if fault]
    if bad:
        message = f"{len(bad):,} images cannot be read and are left out: {listed(sorted(bad))}"
        warnings.warn(message, stacklevel=2)
    return index.without({*bad})


def map_pixels(pixels: Path, images: int) -> Tensor:
    """A file of n images as a memory-mapped tensor (n, side, side, 3) uint8.

    The tensor is read-only: writing to it ends the process.
    """
    side = math.isqrt(pixels.stat().st_size // (3 * images))
    # Not torch.from_file: Linux refuses writable mappings larger than memory.
    read_only = np.memmap(pixels, np.uint8, "r", shape=(images, side, side, 3))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(read_only)


def _hashes(root: Path, paths: Sequence[str], folder: Path, report: OnProgress) -> list[str]:
    """The hash of each file, kept in the folder of the caches, by one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    stamps = folder / f"{_hash(str(root.resolve()))}.json"
    with file_lock(_lock_of(stamps), partial(report, WAITING, 0, None)):
        return content_hashes(root, paths, stamps, report)


def content_hashes(
    root: Path, paths: Sequence[str], stamps: Path, on_progress: OnProgress
) -> list[str]:
    """The SHA-256 of every file, in hexadecimal digits; unchanged files are not read again.

    Args:
        root: root of the relative ``paths``.
        paths: files in any order.
        stamps: file that keeps the hash and the :data:`~riskmatch.files.Stamp` of each file.
        on_progress: called for every file that is read.
    """
    stored = _read_stamps(stamps)
    settled = time.time_ns() - int(SETTLED * 1e9)
    try:
        current = {path: file_stamp(root / path) for path in paths}
    except FileNotFoundError as error:
        file, link = Path(error.filename), Path(error.filename).is_symlink()
        what = f"is a link to {os.readlink(file)}, which does not" if link else "does not"
        raise FileNotFoundError(
            f"{file} {what} exist. Restore it, or remove {'the link' if link else 'its entry'}."
        ) from error
    hashes = {
        path: digest
        for path, (*stamp, digest) in stored.items()
        if tuple(stamp) == current.get(path)
    }
    changed = [path for path in paths if path not in hashes]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(lambda path: sha256(read_file(root / path)), changed)
        for done, (path, digest) in enumerate(zip(changed, digests, strict=True), 1):
            hashes[path] = digest
            on_progress("reading images", done, len(changed))
    if new := {
        path: (*current[path], hashes[path])
        for path in changed
        if max(current[path][1:3]) < settled
    }:
        write_whole(stamps, json.dumps({**stored, **new}).encode())
    return [hashes[path] for path in paths]


def _read_stamps(stamps: Path) -> _Stamps:
    """Stamp and hash by path; empty, with a warning, where the file is damaged."""
    try:
        return msgspec.convert(json.loads(read_file(stamps)), _Stamps)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        warnings.warn(f"{stamps} is damaged and written again: {error}.", stacklevel=2)
        return {}


class _Checksums(msgspec.Struct):
    """Checksums of a file of decoded images, beside it."""

    crc32: list[int]
    """One of each block of :data:`BLOCK` bytes."""
    stamp: Stamp
    """Stamp of the file when all its blocks were last read."""


def _fault(pixels: Path) -> str | None:
    """How a file of decoded images differs from its checksums; None if it is intact, "" if absent.

    Some blocks are read, or all where the times of the file have changed.
    """
    file = _checksum_file(pixels)
    try:
        stored, stamp = msgspec.convert(json.loads(read_file(file)), _Checksums), file_stamp(pixels)
    except FileNotFoundError:  # either file, or both
        return ""
    except (ValueError, RecursionError) as error:
        return f"{file.name} cannot be read ({error})"
    if stamp[0] != stored.stamp[0]:
        return f"it has {stamp[0]} bytes, not {stored.stamp[0]}"
    blocks = len(stored.crc32)
    step = max(1, blocks // SAMPLED) if stamp == stored.stamp else 1
    for number in {*range(0, blocks, step), blocks - 1}:
        if _checksum(pixels, number) != stored.crc32[number]:
            return f"block {number} does not match its checksum"
    if stamp != stored.stamp:
        _write_checksums(pixels, stored.crc32)
    return None


def _checksum(pixels: Path, number: int) -> int:
    with open(pixels, "rb") as file:
        file.seek(number * BLOCK)
        return crc32(file.read(BLOCK))


def _write_checksums(pixels: Path, sums: list[int]) -> None:
    stored = _Checksums(sums, file_stamp(pixels))
    write_whole(_checksum_file(pixels), msgspec.json.encode(stored))


def _checksum_file(pixels: Path) -> Path:
    return pixels.with_suffix(".crc32")


def _build(pixels: Path, files: Sequence[Path], side: int, report: OnProgress) -> None:
    row_bytes = side * side * 3
    needed, free = row_bytes * len(files), shutil.disk_usage(pixels.parent).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free")
    part = pixels.with_suffix(".part")

    def fill(start: int) -> int:
        chunk = files[start : start + CHUNK]
        with open(part, "r+b") as out:
            out.seek(start * row_bytes)
            for image in chunk:
                out.write(decode(image, side).tobytes())
        return len(chunk)

    try:
        # Threads: Pillow decodes and resizes without the interpreter lock.
        with open(part, "wb") as out, ThreadPoolExecutor(os.cpu_count()) as pool:
            done = 0
            for count in pool.map(fill, range(0, len(files), CHUNK)):
                done += count
                report("decoding images", done, len(files))
            os.fsync(out.fileno())
        os.replace(part, pixels)
    finally:
        part.unlink(missing_ok=True)


def _side(files: Sequence[Path], image_size: int) -> int:
    largest, sizes = round(image_size * 8 / 7), map(_size, files)
    width, height = next(sizes)
    same = width == height <= largest and all(size == (width, height) for size in sizes)
    return width if same else largest


def _size(file: Path) -> tuple[int, int]:
    with opened(file) as image:
        return image.size


def _remove_abandoned(folder: Path) -> None:
    """Remove the partial files of killed processes; running ones hold a lock on theirs."""
    for part in folder.glob("*.part"):
        with try_lock(_lock_of(part)) as locked:
            if locked:
                part.unlink(missing_ok=True)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors of the cache's disk into a :class:`CacheError` with the cure."""
    try:
        yield
    except OSError as error:
        cure = "choose another folder with --cache FOLDER or XDG_CACHE_HOME"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(
                f"The disk is full: decoded images do not fit in {folder} ({error.strerror}). "
                f"Free some space, or {cure}."
            ) from error
        if error.filename and Path(error.filename).is_relative_to(folder):
            raise CacheError(
                f"Decoded images cannot be written to {folder} ({error.strerror}); {cure}."
            ) from error
        raise


def _hash(text: str) -> str:
    return sha256(text)[:24]
