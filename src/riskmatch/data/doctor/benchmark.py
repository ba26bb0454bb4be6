"""The published data set that a folder is a copy of, and where the copy departs from it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from riskmatch.data.doctor.examination import Finding
from riskmatch.data.images.benchmark import Benchmark, squeezed
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.index import ImageIndex

HALF, MOST, NEARLY_ALL = 0.5, 0.75, 0.9
"""Shares of a benchmark's names; a copy that lacks one of four domains still has most."""


@dataclass(frozen=True)
class Copy:
    """A copy of a benchmark, or data that is none."""

    benchmark: Benchmark | None
    published: Mapping[str, int]
    """Images by domain as published, by the names that the domains have here."""
    faithful: frozenset[str]
    """The domains with as many images as published; what they lack is no fault of the copy."""

    @property
    def get_again(self) -> str:
        """The cure where something of a benchmark is missing."""
        name = self.benchmark.name if self.benchmark else ""
        return f"Get it again: riskmatch data get {name}"

    @classmethod
    def of(cls, index: ImageIndex, benchmark: Benchmark | None) -> Copy:
        """Compare the numbers of images."""
        if benchmark is None:
            return cls(None, {}, frozenset())
        published = {
            domain: part.images
            for domain in index.domain_names
            for part in benchmark.parts
            if part.is_called(domain)
        }
        found = images_of(index)
        reissued = len(index) == benchmark.reissued
        faithful = {name for name, n in published.items() if reissued or found[name] == n}
        return cls(benchmark, published, frozenset(faithful))


class Likeness(NamedTuple):
    """How much of a benchmark's names there is, from 0 to 1; names of its own lower it."""

    domains: float
    classes: float

    @classmethod
    def of(cls, index: ImageIndex, benchmark: Benchmark) -> Likeness:
        """By names; by the number of classes, where theirs are not known."""
        parts = sum(any(map(part.is_called, index.domain_names)) for part in benchmark.parts)
        here = {squeezed(name) for name in index.class_names}
        names = {squeezed(name) for name in benchmark.class_names}
        shared = len(names & here) if names else min(len(here), benchmark.classes)
        return cls(
            parts / max(len(benchmark.parts), len(index.domain_names)),
            shared / max(benchmark.classes, len(here)),
        )


def recognise(index: ImageIndex) -> Benchmark | None:
    """The benchmark that this is a copy of: nearly all of its names are here, and few others.

    In a folder that has its name, half of them are enough.
    """
    best, likeness = _nearest(index)
    if best.is_called(index.name):
        return best if min(likeness) >= HALF else None
    classes = MOST if best.class_names else NEARLY_ALL  # for a number says less than names
    return best if likeness.domains >= MOST and likeness.classes >= classes else None


def _nearest(index: ImageIndex) -> tuple[Benchmark, Likeness]:
    likenesses = [(benchmark, Likeness.of(index, benchmark)) for benchmark in BENCHMARKS.values()]
    return max(likenesses, key=lambda pair: min(pair[1]))


def images_of(index: ImageIndex) -> dict[str, int]:
    """How many images each domain has."""
    return {domain: sum(classes.values()) for domain, classes in index.counts().items()}


def check_counts(index: ImageIndex, copy: Copy) -> Iterator[Finding]:
    """Domains and numbers of images that are not as published."""
    benchmark = copy.benchmark
    if benchmark is None:
        yield from _check_likeness(index)
        return
    found = images_of(index)
    if len(index) != benchmark.images:
        reissued = len(index) == benchmark.reissued
        yield Finding(
            "count",
            "warning" if reissued else "fault",
            f"has {len(index):,} images; {benchmark.title} was published with {benchmark.images:,} "
            f"({_difference(len(index), benchmark.images)})",
            f"Its archives hold {len(index):,} today. Compare only with results on as many."
            if reissued
            else f"{copy.get_again}. Results on this copy compare with none that are published.",
        )
    for domain, images in copy.published.items():
        if found[domain] != images and domain not in copy.faithful:
            difference = _difference(found[domain], images)
            message = f"has {found[domain]:,} images; {images:,} were published ({difference})"
            yield Finding("count", "fault", message, copy.get_again, domain=domain)
    for part in benchmark.parts:
        if not any(map(part.is_called, index.domain_names)):
            message = f"lacks the domain '{part.name}' of {benchmark.title}"
            yield Finding("missing-domain", "fault", message, copy.get_again)
    for domain in index.domain_names:
        if domain not in copy.published:
            near = difflib.get_close_matches(domain, benchmark.domains, n=1)
            cure = f"Rename it to {near[0]}." if near else "Move it out of the data set."
            message = f"is no domain of {benchmark.title}"
            yield Finding("unknown-domain", "fault", message, cure, domain=domain)


def _check_likeness(index: ImageIndex) -> Iterator[Finding]:
    """A note on data that has half of a benchmark's names, and so may be what is left of it."""
    best, likeness = _nearest(index)
    if min(likeness) >= HALF and recognise(index) is None:
        yield Finding(
            "likeness",
            "note",
            f"has names of {best.title}, but too few of them to be compared with it",
            f"Leave it; if it should be a copy of {best.title}, name its folder {best.name} and "
            "look again.",
        )


def _difference(found: int, expected: int) -> str:
    return f"{abs(found - expected):,} {'fewer' if found < expected else 'more'}"
