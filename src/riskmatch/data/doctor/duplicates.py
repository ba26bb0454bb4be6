"""Find images that occur twice: same bytes, same pixels, or nearly the same picture.

Of pictures that are nearly the same, a 64-bit hash gives candidates and a thumbnail decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from riskmatch.data.doctor.files import THUMBNAIL, Inspection, inspect_files
from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.doctor.published import BenchmarkCopy
from riskmatch.data.images.index import ImageIndex

Pair = tuple[int, int]
"""Two rows of an index, the lower first."""
SIBLING_SHARE, SIBLING_IMAGES = 0.05, 3
"""Domains are siblings that have this share of the smaller one, and so many images, in common."""
ALIKE = 0.99
"""Correlation of two thumbnails from which two images are near-duplicates.

On PACS, copies saved again as JPEG of quality 75 stay above 0.996; the most similar pair of
different images that the hash proposes, two sketches of a guitar, reaches 0.985.
"""
BANDS, BAND_BITS = 4, 16
RADIUS = 2 * BANDS - 1
"""Bits in which two hashes may differ, so that one of their bands differs in at most one bit."""
THUMBNAILS, HASHES = 1 << 12, 1 << 18
"""Pairs of thumbnails and of hashes compared at a time, in about 50 MB."""

Ints = NDArray[np.int64]


def check_duplicates(
    index: ImageIndex, copy: BenchmarkCopy, files: Sequence[Inspection]
) -> Iterator[Finding]:
    """Each copy, with the image that it is a copy of; and domains that share many images."""
    same, near = duplicate_pairs(files)
    for original, row in same:
        message = f"is the same file as {index.paths[original]}"
        if files[original].content != files[row].content:
            message = f"has the same pixels as {index.paths[original]}, in other bytes"
        yield _finding(index, copy, (original, row), message, exact=True)
    for pair in near:
        message = f"looks nearly the same as {index.paths[pair[0]]}"
        yield _finding(index, copy, pair, message, exact=False)
    for one in siblings(index, [*same, *near]):
        message = f"have {one.images:,} images in common: {OVERESTIMATES}"
        yield Finding("sibling-domains", "warning", message, one.cure, domain=one.title)


def duplicate_pairs(files: Sequence[Inspection]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of rows with the same pixels, and pairs that look nearly the same."""
    first = dict[str, int]()
    same = [
        (first[file.pixels], row)
        for row, file in enumerate(files)
        if file.pixels and first.setdefault(file.pixels, row) != row
    ]
    return same, near_duplicates(files, sorted(first.values()))


OVERESTIMATES = (
    "leaving out one of them overestimates the accuracy on a new domain, as the same pictures are "
    "trained on"
)


@dataclass(frozen=True)
class Siblings:
    """Domains with many images in common, the same or nearly the same."""

    domains: tuple[str, ...]
    images: int
    """Number of images that occur in several of these domains, copies counted once."""

    @property
    def title(self) -> str:
        """The names of the domains."""
        return " and ".join(self.domains)

    @property
    def cure(self) -> str:
        """How to leave them out together."""
        return (
            "Leave them out together: riskmatch sweep plan DIR --data DATA --leave-out-together "
            + "+".join(self.domains)
        )


def siblings(index: ImageIndex, pairs: Sequence[Pair]) -> list[Siblings]:
    """Domains of which at least ``SIBLING_SHARE`` of the images of the smaller one occur in both.

    Args:
        index: the images.
        pairs: rows with the same picture; see :func:`duplicate_pairs`.
    """
    n, number = len(index), len(index.domain_names)
    if not pairs:
        return []
    a, b = np.array(pairs).T
    _, groups = connected_components(coo_array((np.ones(len(a)), (a, b)), shape=(n, n)))
    present = np.zeros((groups.max() + 1, number), dtype=bool)
    present[groups, np.asarray(index.domains)] = True
    present = present[present.sum(axis=1) > 1]
    shared = present.T.astype(int) @ present.astype(int)  # (number, number) groups in both domains
    sizes = np.bincount(np.asarray(index.domains), minlength=number)
    needed = np.maximum(SIBLING_IMAGES, SIBLING_SHARE * np.minimum.outer(sizes, sizes))
    close = (shared >= needed) & ~np.eye(number, dtype=bool)
    _, families = connected_components(coo_array(close), directed=False)
    related = []
    for family in dict.fromkeys(families.tolist()):
        members = np.flatnonzero(families == family)
        if len(members) > 1:
            images = int((present[:, members].sum(axis=1) > 1).sum())
            related.append(Siblings(tuple(index.domain_names[k] for k in members), images))
    return related


def siblings_in(index: ImageIndex) -> list[Siblings]:
    """Find sibling domains; reads every image."""
    files = list(inspect_files(map(index.file, range(len(index)))))
    same, near = duplicate_pairs(files)
    return siblings(index, [*same, *near])


def near_duplicates(files: Sequence[Inspection], rows: Iterable[int]) -> list[Pair]:
    """Pairs that connect all rows which look alike, directly or through others.

    A group of k images gives k − 1 pairs, not k(k − 1)/2.
    """
    kept = np.array([row for row in rows if files[row].thumbnail], dtype=np.int64)
    if len(kept) < 2:
        return []
    hashes = np.array([files[row].hash for row in kept], dtype=np.uint64)
    groups, tree = np.arange(len(kept)), np.empty((0, 2), np.int64)
    for candidates in close_pairs(hashes, groups):
        for start in range(0, len(candidates), THUMBNAILS):
            pairs = candidates[start : start + THUMBNAILS]
            pairs = pairs[np.not_equal(*groups[pairs.T])]
            same = alike(*(_thumbnails(files, rows) for rows in kept[pairs.T]))
            if same.any():
                # In place: close_pairs skips pairs within a group from here on.
                tree, groups[:] = _spanning_tree(np.concatenate([tree, pairs[same]]), len(kept))
    return sorted((int(kept[a]), int(kept[b])) for a, b in tree)


def _spanning_tree(edges: Ints, n: int) -> tuple[Ints, Ints]:
    """A subset of the edges that connects the same rows, earlier edges first; and the groups."""
    weights = np.arange(1, len(edges) + 1)
    a, b = edges.T.astype(np.int32)  # csgraph of older SciPy takes no others
    graph = coo_array((weights, (a, b)), shape=(n, n)).tocsr()
    kept = np.sort(minimum_spanning_tree(graph).data).astype(np.int64) - 1
    _, groups = connected_components(graph, directed=False)
    return edges[kept], groups.astype(np.int64)


def _thumbnails(files: Sequence[Inspection], rows: Ints) -> NDArray[np.uint8]:
    joined = b"".join(files[row].thumbnail for row in rows)
    return np.frombuffer(joined, np.uint8).reshape(-1, *THUMBNAIL)


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
    """Each row paired with ``order[start:end]`` of other groups, about ``HASHES`` pairs a time."""
    low = 0
    while low < len(starts):
        rows = int(np.searchsorted(np.cumsum(ends[low:] - starts[low:]), HASHES)) + 1
        sizes = (ends - starts)[low : low + rows]
        row = np.repeat(np.arange(low, low + len(sizes)), sizes)
        within = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        other = order[np.repeat(starts[low : low + rows], sizes) + within]
        apart = groups[row] != groups[other]
        row, other = row[apart], other[apart]
        if len(row):
            yield np.minimum(row, other), np.maximum(row, other)
        low += rows


def alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(k,) whether the thumbnails (k, 16, 16, 3) correlate to at least ``ALIKE``."""
    cosines = np.einsum("ij,ij->i", _standardised(first), _standardised(second))
    return np.asarray(cosines >= ALIKE)


def _standardised(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(k, 768) rows of mean 0 and length 1."""
    rows = thumbnails.reshape(-1, prod(THUMBNAIL)).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def _finding(
    index: ImageIndex, copy: BenchmarkCopy, pair: Pair, message: str, exact: bool
) -> Finding:
    """Two images with the same pixels, if ``exact``, or that look alike."""
    a, b = (index.paths[row] for row in pair)
    labels = [", ".join(index.names(row)) or str(index.labels[row]) for row in pair]
    domains = [index.domain_names[index.domains[row]] for row in pair]
    same_label, same_domain = labels[0] == labels[1], domains[0] == domains[1]
    published = same_domain and domains[0] in copy.complete
    if not same_label:
        message += f", which is '{labels[0]}' while this is '{labels[1]}'"
    severity: Severity
    type_, severity, cure = "duplicate", "warning", "Delete one of the two."
    if not exact:
        type_ = "near-duplicate"
        severity = "note" if same_label and same_domain else "warning"
        cure = "Compare them; if they show the same picture, delete one."
        if same_label and published:
            cure = "Leave it: the data set was published with it, and other results include it."
    elif not same_label:
        # Some benchmarks file an image under each class that it shows.
        same_name = PurePosixPath(a).name == PurePosixPath(b).name
        type_, severity = "label-conflict", "warning" if same_name and published else "fault"
        cure = "Compare them, and delete the one in the wrong class."
    elif not same_domain:
        type_, severity = "leak", "fault"
        message += f"; training on '{domains[0]}' leaks into a test on '{domains[1]}'"
        cure = "Delete it from the wrong domain."
    return Finding(type_, severity, message, cure, b, domains[1], a)
