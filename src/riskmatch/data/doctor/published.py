"""Compare a data set with the published benchmark that it is a copy of."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from riskmatch.data.doctor.findings import Finding
from riskmatch.data.images.benchmark import Benchmark, folded_name
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.index import ImageIndex

HALF, MOST, NEARLY_ALL = 0.5, 0.75, 0.9
"""Shares of a benchmark's names; a copy without one of four domains still has most."""


@dataclass(frozen=True)
class BenchmarkCopy:
    """A data set as a copy of a benchmark; ``benchmark`` is None for other data."""

    benchmark: Benchmark | None
    published: Mapping[str, int]
    """Published number of images, by the names of the domains here."""
    complete: frozenset[str]
    """Domains with the published number of images; what they lack is not a fault of the copy."""

    @property
    def get_again(self) -> str:
        """The cure where a part of the benchmark is missing."""
        name = self.benchmark.name if self.benchmark else ""
        return f"Download it again: riskmatch data get {name}"

    @classmethod
    def of(cls, index: ImageIndex, benchmark: Benchmark | None) -> BenchmarkCopy:
        """Compare the numbers of images."""
        if benchmark is None:
            return cls(None, {}, frozenset())
        published = {
            domain: part.images
            for domain in index.domain_names
            for part in benchmark.parts
            if part.matches(domain)
        }
        counts = images_by_domain(index)
        reissued = len(index) == benchmark.reissued
        complete = {name for name, n in published.items() if reissued or counts[name] == n}
        return cls(benchmark, published, frozenset(complete))


class NameOverlap(NamedTuple):
    """Share of a benchmark's names that a data set has, from 0 to 1; extra names lower it."""

    domains: float
    classes: float

    @classmethod
    def of(cls, index: ImageIndex, benchmark: Benchmark) -> NameOverlap:
        """Compare names, or the number of classes where the class names are unknown."""
        parts = sum(any(map(part.matches, index.domain_names)) for part in benchmark.parts)
        present = {folded_name(name) for name in index.class_names}
        names = {folded_name(name) for name in benchmark.class_names}
        shared = len(names & present) if names else min(len(present), benchmark.classes)
        return cls(
            parts / max(len(benchmark.parts), len(index.domain_names)),
            shared / max(benchmark.classes, len(present)),
        )


def recognise(index: ImageIndex) -> Benchmark | None:
    """The benchmark whose domain and class names a data set has nearly all, and few others.

    In a folder with the name of the benchmark, half of the names suffice.
    """
    best, overlap = _nearest(index)
    if best.matches(index.name):
        return best if min(overlap) >= HALF else None
    classes = MOST if best.class_names else NEARLY_ALL  # a number is weaker evidence than names
    return best if overlap.domains >= MOST and overlap.classes >= classes else None


def _nearest(index: ImageIndex) -> tuple[Benchmark, NameOverlap]:
    overlaps = [(benchmark, NameOverlap.of(index, benchmark)) for benchmark in BENCHMARKS.values()]
    return max(overlaps, key=lambda pair: min(pair[1]))


def images_by_domain(index: ImageIndex) -> dict[str, int]:
    """Number of images of each domain."""
    return {domain: sum(classes.values()) for domain, classes in index.counts().items()}


def check_counts(index: ImageIndex, copy: BenchmarkCopy) -> Iterator[Finding]:
    """Domains and numbers of images that differ from the published ones."""
    benchmark = copy.benchmark
    if benchmark is None:
        yield from _check_overlap(index)
        return
    counts = images_by_domain(index)
    if len(index) != benchmark.images:
        reissued = len(index) == benchmark.reissued
        yield Finding(
            "count",
            "warning" if reissued else "fault",
            f"has {len(index):,} images; {benchmark.title} was published with {benchmark.images:,} "
            f"({_difference(len(index), benchmark.images)})",
            f"Today's archives hold {len(index):,}. Compare only with results on as many images."
            if reissued
            else f"{copy.get_again}. Results on this copy are not comparable with published ones.",
        )
    for domain, images in copy.published.items():
        if counts[domain] != images and domain not in copy.complete:
            difference = _difference(counts[domain], images)
            message = f"has {counts[domain]:,} images; {images:,} were published ({difference})"
            yield Finding("count", "fault", message, copy.get_again, domain=domain)
    for part in benchmark.parts:
        if not any(map(part.matches, index.domain_names)):
            message = f"lacks the domain '{part.name}' of {benchmark.title}"
            yield Finding("missing-domain", "fault", message, copy.get_again)
    for domain in index.domain_names:
        if domain not in copy.published:
            near = difflib.get_close_matches(domain, benchmark.domains, n=1)
            cure = f"Rename it to {near[0]}." if near else "Move it out of the data set."
            message = f"is not a domain of {benchmark.title}"
            yield Finding("unknown-domain", "fault", message, cure, domain=domain)


def _check_overlap(index: ImageIndex) -> Iterator[Finding]:
    """A note on data with half of a benchmark's names: it may be an incomplete copy."""
    best, overlap = _nearest(index)
    if min(overlap) >= HALF and recognise(index) is None:
        yield Finding(
            "likeness",
            "note",
            f"has names of {best.title}, but too few to be compared with it",
            f"If it is meant to be a copy of {best.title}, name its folder {best.name} and run "
            "the doctor again.",
        )


def _difference(actual: int, expected: int) -> str:
    return f"{abs(actual - expected):,} {'fewer' if actual < expected else 'more'}"
