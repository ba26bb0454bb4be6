"""Pictures that look alike: a hash of 64 bits finds the candidates, a thumbnail decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
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
ROUNDING = 1e-4
"""More than what single precision adds to a distance."""
FLAT = 2.0
"""Standard deviation of a thumbnail, in grey levels, below which only noise would be compared."""
BANDS, BAND = 4, 16
RADIUS = 2 * BANDS - 1
"""Bits in which two hashes may differ, so that one of their bands differs in at most one."""
CHUNK = 1 << 18
"""Pairs of hashes that are compared at a time."""


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


def close_pairs(
    hashes: NDArray[np.uint64], groups: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """All pairs (k, 2) of rows, first < second, whose hashes differ in at most ``RADIUS`` bits.

    If two hashes differ in at most 7 of 64 bits, then one of their four bands of 16 bits differs in
    at most one. So each row is compared with the rows of 17 buckets per band, and not with all.

    Args:
        hashes: (n) of the rows.
        groups: (n) rows of one group are not paired. Whoever takes the pairs may join groups on the
            way: of n frames of one scene, only a few of the n(n − 1)/2 pairs are then given.

    Example:
        >>> hashes = np.array([0, 2**64 - 1, 0b111 << 40, 0b1111 << 60], dtype=np.uint64)
        >>> np.concatenate(list(close_pairs(hashes, np.arange(4)))).tolist()
        [[0, 2], [0, 3], [2, 3]]
        >>> np.concatenate(list(close_pairs(hashes, np.array([0, 1, 0, 3])))).tolist()
        [[0, 3], [2, 3]]
    """
    shifts = np.arange(0, 64, BAND, dtype=np.uint64)
    bands = ((hashes[:, None] >> shifts) & np.uint64((1 << BAND) - 1)).astype(np.int64)
    ones = np.array([bin(value).count("1") for value in range(1 << BAND)], dtype=np.int8)
    for band in range(BANDS):
        for first, second in _bucket_pairs(bands[:, band], groups):
            apart = ones[bands[first] ^ bands[second]]  # (k, BANDS)
            # A pair that an earlier band brought together has been given already.
            new = (apart.sum(axis=1) <= RADIUS) & (apart[:, :band] > 1).all(axis=1)
            if new.any():
                yield np.stack([first[new], second[new]], axis=1)


def _bucket_pairs(
    keys: NDArray[np.int64], groups: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of rows, first < second, whose keys differ in at most one bit, each pair once."""
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange((1 << BAND) + 1))
    after = np.empty_like(order)
    after[order] = np.arange(1, len(order) + 1)
    yield from _expanded(after, edges[keys + 1], order, groups)
    for flip in (1 << bit for bit in range(BAND)):
        # The one of the two that lacks the bit looks for the other.
        starts, ends = edges[keys ^ flip], edges[(keys ^ flip) + 1]
        yield from _expanded(starts, np.where(keys & flip, starts, ends), order, groups)


def _expanded(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    order: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Each row with those of ``order[start:end]`` in other groups, about ``CHUNK`` at a time."""
    low = 0
    while low < len(starts):
        start, end = _without_own_group(low, starts[low:], ends[low:], groups[order], groups)
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


def _without_own_group(
    low: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    ordered: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranges of the rows from ``low`` on, less what is of the row's own group at either end.

    Rows of one scene lie side by side, so that this passes over most of their pairs unseen.
    """
    own, n = groups[low:], len(ordered)
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    runs = np.concatenate([[0], changes, [n]])  # where a run of one group begins
    run = np.searchsorted(runs, np.arange(n), side="right")
    some = ends > starts
    first, last = np.minimum(starts, n - 1), np.maximum(ends - 1, 0)
    starts = np.where(some & (ordered[first] == own), runs[run[first]], starts)
    ends = np.where(some & (ordered[last] == own), runs[run[last] - 1], ends)
    return np.minimum(starts, ends), ends


def alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(k) whether the thumbnails (k, 16, 16, 3) correlate to at least ``ALIKE``."""
    cosines = np.einsum("ij,ij->i", _standard(first), _standard(second))
    return np.asarray(cosines >= ALIKE)


def coarse(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(k, 48) thumbnails (k, 16, 16, 3), standardised, as the means of 4 × 4 points, times 4.

    This is an orthogonal projection, which brings no two further apart; see ``may_be_alike``.
    """
    blocks = _standard(thumbnails).reshape(-1, 4, 4, 4, 4, 3)
    return np.asarray(blocks.mean(axis=(2, 4)) * 4).reshape(len(thumbnails), -1)


def may_be_alike(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(k) whether the thumbnails may be alike by what is ``coarse`` of them: a 16th of the work.

    For unit vectors, |u − v|² = 2 − 2u·v; so two that are alike are within √(2 − 2 ``ALIKE``), and
    so are their projections.
    """
    apart = first - second
    return np.asarray(np.einsum("ij,ij->i", apart, apart) <= 2 - 2 * ALIKE + ROUNDING)


def _standard(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(k, 768) of mean 0 and length 1."""
    rows = thumbnails.reshape(-1, prod(THUMBNAIL)).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows
