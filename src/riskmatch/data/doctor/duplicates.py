"""Images that are there twice: the same bytes, the same pixels, or nearly the same picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.doctor.benchmark import Copy
from riskmatch.data.doctor.examination import Finding, Severity
from riskmatch.data.doctor.fingerprint import THUMBNAIL, alike, close_pairs, coarse, may_be_alike
from riskmatch.data.doctor.look import Look
from riskmatch.data.images.index import ImageIndex

Pair = tuple[int, int]
"""Two rows of an index, the lower first."""
COMPARED = 1 << 13
"""Pairs of thumbnails that are compared at a time, in some 100 MB."""
PUBLISHED_SO = "Leave it: it seems published so, and others' results have it too."


def check_duplicates(index: ImageIndex, copy: Copy, looks: Sequence[Look]) -> Iterator[Finding]:
    """Each copy, with the image that it is a copy of."""
    first = dict[bytes, int]()
    for row, look in enumerate(looks):
        if look.pixels and first.setdefault(look.pixels, row) != row:
            yield _same(index, copy, looks, (first[look.pixels], row))
    for pair in near_duplicates(looks, sorted(first.values())):
        yield _near(index, copy, pair)


def near_duplicates(looks: Sequence[Look], rows: Iterable[int]) -> list[Pair]:
    """Pairs that join all rows which look alike, directly or by way of others.

    Of k pictures that are nearly the same there are k − 1 pairs, not k(k − 1)/2.
    """
    kept = np.array([row for row in rows if looks[row].thumbnail], dtype=np.int64)
    if len(kept) < 2:
        return []
    hashes = np.array([looks[row].hash for row in kept], dtype=np.uint64)
    rough = np.concatenate([coarse(_thumbnails(looks, part)) for part in _parts(kept)])
    groups, pairs = np.arange(len(kept)), list[Pair]()
    for candidates in close_pairs(hashes, groups):
        for part in _parts(candidates):
            a, b = part[np.not_equal(*groups[part.T])].T
            likely = may_be_alike(rough[a], rough[b])
            a, b = a[likely], b[likely]
            same = alike(_thumbnails(looks, kept[a]), _thumbnails(looks, kept[b]))
            for one, other in zip(a[same].tolist(), b[same].tolist(), strict=True):
                if groups[one] != groups[other]:
                    groups[groups == groups[other]] = groups[one]
                    pairs.append((int(kept[one]), int(kept[other])))
    return sorted(pairs)


def _parts(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (rows[start : start + COMPARED] for start in range(0, len(rows), COMPARED))


def _thumbnails(looks: Sequence[Look], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    joined = b"".join(looks[row].thumbnail for row in rows)
    return np.frombuffer(joined, np.uint8).reshape(-1, *THUMBNAIL)


def _same(index: ImageIndex, copy: Copy, looks: Sequence[Look], pair: Pair) -> Finding:
    """Two images of the same pixels."""
    a, b = (index.paths[row] for row in pair)
    labels, domains = _names(index, pair)
    equal = looks[pair[0]].content == looks[pair[1]].content
    message = f"is the same file as {a}" if equal else f"has the same pixels as {a}, in other bytes"
    if labels[0] != labels[1]:
        kind, severity = "label-conflict", _conflict(copy, domains, (a, b))
        message += f", which is '{labels[0]}' while this is '{labels[1]}'"
        cure = "Look at it, and delete the one that is filed wrongly."
    elif domains[0] != domains[1]:
        kind, severity = "leak", "fault"
        message += f"; training on '{domains[0]}' gives away a test on '{domains[1]}'"
        cure = "Delete it from the domain that it is not of."
    else:
        kind, severity = "duplicate", "warning"
        cure = "Delete one of the two."
    return Finding(kind, severity, message, cure, path=b, other=a, domain=domains[1])


def _conflict(copy: Copy, domains: tuple[str, str], paths: tuple[str, str]) -> Severity:
    """A fault, unless a benchmark was published with an image under each thing that it shows."""
    same_name = len({PurePosixPath(path).name for path in paths}) == 1
    published = domains[0] == domains[1] and domains[0] in copy.faithful
    return "warning" if same_name and published else "fault"


def _near(index: ImageIndex, copy: Copy, pair: Pair) -> Finding:
    """Two images that look alike."""
    a, b = (index.paths[row] for row in pair)
    labels, domains = _names(index, pair)
    message = f"is nearly the same picture as {a}"
    if labels[0] != labels[1]:
        message += f", which is '{labels[0]}' while this is '{labels[1]}'"
    harmless = labels[0] == labels[1] and domains[0] == domains[1]
    return Finding(
        "near-duplicate",
        "note" if harmless else "warning",
        message,
        PUBLISHED_SO
        if harmless and domains[0] in copy.faithful
        else "Look at both; if they are one picture, delete one.",
        path=b,
        other=a,
        domain=domains[1],
    )


def _names(index: ImageIndex, pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    """The classes of two rows, and their domains."""
    a, b = pair
    return (
        (index.class_names[index.labels[a]], index.class_names[index.labels[b]]),
        (index.domain_names[index.domains[a]], index.domain_names[index.domains[b]]),
    )
