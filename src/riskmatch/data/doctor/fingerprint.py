"""Pictures that look alike: a hash of 64 bits finds the candidates, a thumbnail decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL = (16, 16, 3)
ALIKE = 0.99
"""The correlation of two thumbnails from which two pictures are nearly the same.

On PACS, copies saved anew as JPEG of quality 75 stay above 0.996; the most alike pair of different
pictures that the hash proposes, two sketches of a guitar, reaches 0.985.
"""
FLAT = 2.0
"""Standard deviation of a thumbnail, in grey levels, below which only noise would be compared."""
BANDS, BAND = 4, 16
RADIUS = 2 * BANDS - 1
"""Bits in which two hashes may differ, so that one of their bands differs in at most one."""
CHUNK = 1 << 19
"""Pairs that are compared at a time."""


def perceptual_hash(grey: NDArray[Any]) -> int:
    """The signs, about their median, of the 64 lowest frequencies of a (32, 32) picture but the 0.

    Frequencies below 8 × 8 of the discrete cosine transform, the constant left out and (8, 0) in
    its place. The hash hardly moves when a picture is scaled or compressed.
    """
    cosines = _cosines()
    spectrum = cosines @ grey.astype(np.float64) @ cosines.T
    lowest = np.append(spectrum[:8, :8].ravel()[1:], spectrum[8, 0])
    return int.from_bytes(np.packbits(lowest > np.median(lowest)).tobytes(), "big")


@cache
def _cosines() -> NDArray[np.float64]:
    """(9, 32) the lowest cosines on 32 points."""
    points = (2 * np.arange(32) + 1) * np.pi / 64
    return np.cos(np.arange(9)[:, None] * points)


def fingerprint(rgb: Image) -> tuple[int, bytes] | None:
    """The hash and the thumbnail of a picture; None where it is of one colour."""
    from PIL.Image import Resampling

    thumbnail = np.asarray(rgb.resize(THUMBNAIL[:2], Resampling.BOX))
    if thumbnail.std() < FLAT:
        return None
    grey = rgb.resize((32, 32), Resampling.BOX).convert("L")
    return perceptual_hash(np.asarray(grey)), thumbnail.tobytes()


def close_pairs(hashes: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """All pairs (k, 2) of rows, first < second, whose hashes differ in at most ``RADIUS`` bits.

    If two hashes differ in at most 7 of 64 bits, then one of their four bands of 16 bits differs in
    at most one. So each row is compared with the rows of 17 buckets per band, and not with all.

    Example:
        >>> hashes = np.array([0, 2**64 - 1, 0b111 << 40, 0b1111 << 60], dtype=np.uint64)
        >>> np.concatenate(list(close_pairs(hashes))).tolist()
        [[0, 2], [0, 3], [2, 3]]
    """
    shifts = np.arange(0, 64, BAND, dtype=np.uint64)
    bands = ((hashes[:, None] >> shifts) & np.uint64((1 << BAND) - 1)).astype(np.int64)
    ones = np.array([bin(value).count("1") for value in range(1 << BAND)], dtype=np.int8)
    for band in range(BANDS):
        for first, second in _bucket_pairs(bands[:, band]):
            apart = ones[bands[first] ^ bands[second]]  # (k, BANDS)
            # A pair that an earlier band brought together has been given already.
            new = (apart.sum(axis=1) <= RADIUS) & (apart[:, :band] > 1).all(axis=1)
            if new.any():
                yield np.stack([first[new], second[new]], axis=1)


def _bucket_pairs(keys: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of rows, first < second, whose keys differ in at most one bit, each pair once."""
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange((1 << BAND) + 1))
    after = np.empty_like(order)
    after[order] = np.arange(1, len(order) + 1)
    yield from _expanded(after, edges[keys + 1], order)
    for flip in (1 << bit for bit in range(BAND)):
        # The one of the two that lacks the bit looks for the other.
        starts, ends = edges[keys ^ flip], edges[(keys ^ flip) + 1]
        yield from _expanded(starts, np.where(keys & flip, starts, ends), order)


def _expanded(
    starts: NDArray[np.int64], ends: NDArray[np.int64], order: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Each row with the rows ``order[start:end]``, about ``CHUNK`` pairs at a time."""
    sizes = ends - starts
    total = np.cumsum(sizes)
    cuts = np.searchsorted(total, np.arange(CHUNK, total[-1] + CHUNK, CHUNK)) + 1
    for low, high in pairwise([0, *cuts.tolist()]):
        part = sizes[low:high]
        row = np.repeat(np.arange(low, low + len(part)), part)
        within = np.arange(len(row)) - np.repeat(np.cumsum(part) - part, part)
        other = order[np.repeat(starts[low:high], part) + within]
        yield np.minimum(row, other), np.maximum(row, other)


def alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(k) whether the thumbnails (k, 16, 16, 3) correlate to at least ``ALIKE``."""
    a, b = (side.reshape(len(side), -1).astype(np.float32) for side in (first, second))
    a -= a.mean(axis=1, keepdims=True)
    b -= b.mean(axis=1, keepdims=True)
    norms: NDArray[np.float32] = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return np.asarray((a * b).sum(axis=1) >= ALIKE * norms)
