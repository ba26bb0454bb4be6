"""Find images that occur twice: same bytes, same pixels, or nearly the same picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from riskmatch.data.doctor.files import Inspection
from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.doctor.published import BenchmarkCopy
from riskmatch.data.doctor.similarity import (
    THUMBNAIL,
    Ints,
    alike,
    close_pairs,
    coarse,
    may_be_alike,
)
from riskmatch.data.images.index import ImageIndex

Pair = tuple[int, int]
"""Two rows of an index, the lower first."""
CHUNK = 1 << 13
"""Pairs of thumbnails compared at a time, in about 100 MB."""
AS_PUBLISHED = "Leave it: the data set was published with it, and other results include it."


def check_duplicates(
    index: ImageIndex, copy: BenchmarkCopy, files: Sequence[Inspection]
) -> Iterator[Finding]:
    """Each copy, with the image that it is a copy of."""
    first = dict[bytes, int]()
    for row, file in enumerate(files):
        if file.pixels and first.setdefault(file.pixels, row) != row:
            yield _duplicate(index, copy, files, (first[file.pixels], row))
    for pair in near_duplicates(files, sorted(first.values())):
        yield _near_duplicate(index, copy, pair)


def near_duplicates(files: Sequence[Inspection], rows: Iterable[int]) -> list[Pair]:
    """Pairs that connect all rows which look alike, directly or through others.

    A group of k images gives k − 1 pairs, not k(k − 1)/2.
    """
    kept = np.array([row for row in rows if files[row].thumbnail], dtype=np.int64)
    if len(kept) < 2:
        return []
    hashes = np.array([files[row].hash for row in kept], dtype=np.uint64)
    rough = np.concatenate([coarse(_thumbnails(files, chunk)) for chunk in _chunks(kept)])
    groups, tree = np.arange(len(kept)), np.empty((0, 2), np.int64)
    for candidates in close_pairs(hashes, groups):
        for chunk in _chunks(candidates):
            a, b = chunk[np.not_equal(*groups[chunk.T])].T
            likely = may_be_alike(rough[a], rough[b])
            a, b = a[likely], b[likely]
            same = alike(_thumbnails(files, kept[a]), _thumbnails(files, kept[b]))
            if same.any():
                edges = np.concatenate([tree, np.stack([a[same], b[same]], axis=1)])
                # In place: close_pairs skips pairs within a group from here on.
                tree, groups[:] = _spanning_tree(edges, len(kept))
    return sorted((int(kept[a]), int(kept[b])) for a, b in tree)


def _spanning_tree(edges: Ints, n: int) -> tuple[Ints, Ints]:
    """A subset of the edges that connects the same rows, earlier edges first; and the groups."""
    weights = np.arange(1, len(edges) + 1)
    graph = coo_array((weights, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    kept = np.sort(minimum_spanning_tree(graph).data).astype(np.int64) - 1
    _, groups = connected_components(graph, directed=False)
    return edges[kept], groups.astype(np.int64)


def _chunks(rows: Ints) -> Iterator[Ints]:
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def _thumbnails(files: Sequence[Inspection], rows: Ints) -> NDArray[np.uint8]:
    joined = b"".join(files[row].thumbnail for row in rows)
    return np.frombuffer(joined, np.uint8).reshape(-1, *THUMBNAIL)


def _duplicate(
    index: ImageIndex, copy: BenchmarkCopy, files: Sequence[Inspection], pair: Pair
) -> Finding:
    """Two images with the same pixels."""
    a, b = (index.paths[row] for row in pair)
    labels, domains = _names(index, pair)
    equal = files[pair[0]].content == files[pair[1]].content
    message = f"is the same file as {a}" if equal else f"has the same pixels as {a}, in other bytes"
    if labels[0] != labels[1]:
        kind, severity = "label-conflict", _conflict(copy, domains, (a, b))
        message += f", which is '{labels[0]}' while this is '{labels[1]}'"
        cure = "Compare them, and delete the one in the wrong class."
    elif domains[0] != domains[1]:
        kind, severity = "leak", "fault"
        message += f"; training on '{domains[0]}' leaks into a test on '{domains[1]}'"
        cure = "Delete it from the wrong domain."
    else:
        kind, severity = "duplicate", "warning"
        cure = "Delete one of the two."
    return Finding(kind, severity, message, cure, path=b, other=a, domain=domains[1])


def _conflict(copy: BenchmarkCopy, domains: tuple[str, str], paths: tuple[str, str]) -> Severity:
    """A fault, unless the benchmark files an image under each class that it shows."""
    same_name = len({PurePosixPath(path).name for path in paths}) == 1
    published = domains[0] == domains[1] and domains[0] in copy.complete
    return "warning" if same_name and published else "fault"


def _near_duplicate(index: ImageIndex, copy: BenchmarkCopy, pair: Pair) -> Finding:
    """Two images that look alike."""
    a, b = (index.paths[row] for row in pair)
    labels, domains = _names(index, pair)
    message = f"looks nearly the same as {a}"
    if labels[0] != labels[1]:
        message += f", which is '{labels[0]}' while this is '{labels[1]}'"
    harmless = labels[0] == labels[1] and domains[0] == domains[1]
    return Finding(
        "near-duplicate",
        "note" if harmless else "warning",
        message,
        AS_PUBLISHED
        if harmless and domains[0] in copy.complete
        else "Compare them; if they show the same picture, delete one.",
        path=b,
        other=a,
        domain=domains[1],
    )


def _names(index: ImageIndex, pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    """Class names and domain names of two rows."""
    a, b = pair
    return (
        (index.class_names[index.labels[a]], index.class_names[index.labels[b]]),
        (index.domain_names[index.domains[a]], index.domain_names[index.domains[b]]),
    )
