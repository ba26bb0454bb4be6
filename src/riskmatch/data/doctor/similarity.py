"""Find images that look alike: a 64-bit hash gives candidates, a thumbnail decides."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL = (16, 16, 3)
ALIKE = 0.99
"""Correlation of two thumbnails from which two images are near-duplicates.

On PACS, copies saved again as JPEG of quality 75 stay above 0.996; the most similar pair of
different images that the hash proposes, two sketches of a guitar, reaches 0.985.
"""
ROUNDING = 1e-4
"""Upper bound of the rounding error of a squared distance in single precision."""
FLAT = 2.0
"""Standard deviation of a thumbnail, in grey levels, below which only noise would be compared."""
BANDS, BAND_BITS = 4, 16
RADIUS = 2 * BANDS - 1
"""Bits in which two hashes may differ, so that one of their bands differs in at most one bit."""
CHUNK = 1 << 18
"""Pairs of hashes compared at a time."""

Ints = NDArray[np.int64]


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


def close_pairs(hashes: NDArray[np.uint64], groups: Ints) -> Iterator[Ints]:
    """All pairs (k, 2) of rows, first < second, whose hashes differ in at most ``RADIUS`` bits.

    If two hashes differ in at most 7 of 64 bits, one of their four bands of 16 bits differs in at
    most one bit. So each row is compared only with the rows of 17 buckets per band.

    Args:
        hashes: (n,) hashes of the rows.
        groups: (n,) rows of one group are not paired. The caller may join groups between two
            items: of n frames of one scene, only few of the n(n − 1)/2 pairs are then given.

    Example:
        >>> hashes = np.array([0, 2**64 - 1, 0b111 << 40, 0b1111 << 60], dtype=np.uint64)
        >>> np.concatenate(list(close_pairs(hashes, np.arange(4)))).tolist()
        [[0, 2], [0, 3], [2, 3]]
        >>> np.concatenate(list(close_pairs(hashes, np.array([0, 1, 0, 3])))).tolist()
        [[0, 3], [2, 3]]
    """
    shifts = np.arange(0, 64, BAND_BITS, dtype=np.uint64)
    bands = ((hashes[:, None] >> shifts) & np.uint64((1 << BAND_BITS) - 1)).astype(np.int64)
    ones = np.array([bin(value).count("1") for value in range(1 << BAND_BITS)], dtype=np.int8)
    for band in range(BANDS):
        for first, second in _bucket_pairs(bands[:, band], groups):
            distances = ones[bands[first] ^ bands[second]]  # (k, BANDS)
            # Pairs that share a bucket of an earlier band have been given already.
            new = (distances.sum(axis=1) <= RADIUS) & (distances[:, :band] > 1).all(axis=1)
            if new.any():
                yield np.stack([first[new], second[new]], axis=1)


def _bucket_pairs(keys: Ints, groups: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of rows, first < second, whose keys differ in at most one bit, each pair once."""
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange((1 << BAND_BITS) + 1))
    after = np.empty_like(order)
    after[order] = np.arange(1, len(order) + 1)
    yield from _expanded(after, edges[keys + 1], order, groups)
    for flip in (1 << bit for bit in range(BAND_BITS)):
        # Only rows without the bit search, so that a pair is found once.
        starts, ends = edges[keys ^ flip], edges[(keys ^ flip) + 1]
        yield from _expanded(starts, np.where(keys & flip, starts, ends), order, groups)


def _expanded(starts: Ints, ends: Ints, order: Ints, groups: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Each row paired with ``order[start:end]`` of other groups, about ``CHUNK`` pairs a time."""
    low = 0
    while low < len(starts):
        start, end = _trimmed(low, starts[low:], ends[low:], groups[order], groups)
        total = np.cumsum(end - start)
        rows = int(np.searchsorted(total, CHUNK)) + 1
        sizes = (end - start)[:rows]
        row = np.repeat(np.arange(low, low + len(sizes)), sizes)
        within = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        other = order[np.repeat(start[:rows], sizes) + within]
        apart = groups[row] != groups[other]
        row, other = row[apart], other[apart]
        if len(row):
            yield np.minimum(row, other), np.maximum(row, other)
        low += rows


def _trimmed(low: int, starts: Ints, ends: Ints, ordered: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """The ranges of the rows from ``low`` on, without members of the row's group at either end.

    Frames of one scene are neighbours, so this skips most of their pairs.
    """
    group, n = groups[low:], len(ordered)
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    runs = np.concatenate([[0], changes, [n]])  # starts of runs of one group
    run = np.searchsorted(runs, np.arange(n), side="right")
    some = ends > starts
    first, last = np.minimum(starts, n - 1), np.maximum(ends - 1, 0)
    starts = np.where(some & (ordered[first] == group), runs[run[first]], starts)
    ends = np.where(some & (ordered[last] == group), runs[run[last] - 1], ends)
    return np.minimum(starts, ends), ends


def alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(k,) whether the thumbnails (k, 16, 16, 3) correlate to at least ``ALIKE``."""
    cosines = np.einsum("ij,ij->i", _standardised(first), _standardised(second))
    return np.asarray(cosines >= ALIKE)


def coarse(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(k, 48) standardised thumbnails (k, 16, 16, 3), averaged over 4 × 4 points, times 4.

    This is an orthogonal projection, which increases no distance; see :func:`may_be_alike`.
    """
    blocks = _standardised(thumbnails).reshape(-1, 4, 4, 4, 4, 3)
    return np.asarray(blocks.mean(axis=(2, 4)) * 4).reshape(len(thumbnails), -1)


def may_be_alike(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(k,) whether thumbnails may be alike by their :func:`coarse` versions, at a 16th of the cost.

    For unit vectors, |u − v|² = 2 − 2u·v; so thumbnails that are alike are within
    √(2 − 2 ``ALIKE``), and so are their projections.
    """
    apart = first - second
    return np.asarray(np.einsum("ij,ij->i", apart, apart) <= 2 - 2 * ALIKE + ROUNDING)


def _standardised(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(k, 768) rows of mean 0 and length 1."""
    rows = thumbnails.reshape(-1, prod(THUMBNAIL)).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows
