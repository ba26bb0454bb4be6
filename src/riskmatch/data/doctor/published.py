"""Check domains, classes and counts, against the published benchmark if it is a copy of one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.images.benchmark import BENCHMARKS, Benchmark, folded_name
from riskmatch.data.images.index import ImageIndex

HALF, MOST, NEARLY_ALL = 0.5, 0.75, 0.9
"""Shares of a benchmark's names; a copy without one of four domains still has most."""
MIN_DOMAIN = 50
"""Images of a domain below which its validation fifth resolves accuracy only to 10 %."""
MIN_CLASS = 5
"""Images of a class below which a validation fifth has none."""
NEAR = 0.8
"""difflib ratio above which one name may be a misspelling of the other."""


@dataclass(frozen=True)
class BenchmarkCopy:
    """A data set as a copy of a benchmark; ``benchmark`` is None for other data."""

    benchmark: Benchmark | None
    published: Mapping[str, int]
    """Published number of images, by the names of the domains here."""
    complete: frozenset[str]
    """Domains with the published number of images; what they lack is not a fault of the copy."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the benchmark; empty where they are unknown."""
        return self.benchmark.class_names if self.benchmark else ()

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
        counts = index.domain_sizes()
        reissued = len(index) == benchmark.reissued
        complete = {name for name, n in published.items() if reissued or counts[name] == n}
        return cls(benchmark, published, frozenset(complete))


def recognise(index: ImageIndex) -> Benchmark | None:
    """The benchmark whose domain and class names a data set has nearly all, and few others.

    In a folder with the name of the benchmark, half of the names suffice.
    """
    best, (domains, classes) = _nearest(index)
    if best.matches(index.name):
        return best if min(domains, classes) >= HALF else None
    needed = MOST if best.class_names else NEARLY_ALL  # a number is weaker evidence than names
    return best if domains >= MOST and classes >= needed else None


def _nearest(index: ImageIndex) -> tuple[Benchmark, tuple[float, float]]:
    """The most similar benchmark, with the share of its names of domains and of classes.

    The shares are from 0 to 1; extra names lower them. Where the names of the classes are unknown,
    their number is compared.
    """
    present = {folded_name(name) for name in index.class_names}

    def overlap(benchmark: Benchmark) -> tuple[float, float]:
        parts = sum(any(map(part.matches, index.domain_names)) for part in benchmark.parts)
        names = {folded_name(name) for name in benchmark.class_names}
        shared = len(names & present) if names else min(len(present), benchmark.classes)
        return (
            parts / max(len(benchmark.parts), len(index.domain_names)),
            shared / max(benchmark.classes, len(present)),
        )

    overlaps = [(benchmark, overlap(benchmark)) for benchmark in BENCHMARKS.values()]
    return max(overlaps, key=lambda pair: min(pair[1]))


def check_counts(index: ImageIndex, copy: BenchmarkCopy) -> Iterator[Finding]:
    """Domains and numbers of images that differ from the published ones."""
    benchmark = copy.benchmark
    if benchmark is None:
        return
    counts = index.domain_sizes()
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


def _difference(actual: int, expected: int) -> str:
    return f"{abs(actual - expected):,} {'fewer' if actual < expected else 'more'}"


def check_classes(index: ImageIndex, copy: BenchmarkCopy) -> Iterator[Finding]:
    """Findings about the names and sizes of classes."""
    if len(index.class_names) == 1:
        message = f"has one class only, '{index.class_names[0]}', so every prediction is right"
        yield Finding("one-class", "fault", message, "Add images of another class.")
    misspelt = _misspelt(index, copy)
    for (domain, name), right in misspelt.items():
        certain = right in copy.class_names or folded_name(name) == folded_name(right)
        yield Finding(
            "renamed-class",
            "fault" if certain else "warning",
            f"has a class '{name}' where '{right}' is expected: they would get different labels",
            f"{'Rename' if certain else 'If they are the same, rename'} {domain}/{name} to "
            f"{right}.",
            domain=domain,
        )
    yield from _missing_classes(index, copy, misspelt)
    yield from _small(index, copy)


def _missing_classes(
    index: ImageIndex, copy: BenchmarkCopy, misspelt: dict[tuple[str, str], str]
) -> Iterator[Finding]:
    """Classes that no domain has, or that a single domain lacks."""
    wrong = {name for _, name in misspelt}
    expected = {name for name in index.class_names if name not in wrong} | set(misspelt.values())
    for name in copy.class_names:
        if folded_name(name) not in map(folded_name, expected):
            message = f"has no image of the class '{name}'"
            yield Finding("missing-class", "fault", message, copy.get_again)
    for domain, counts in index.counts().items():
        severity, cure = _absence(domain, copy)
        respelt = {right for (where, _), right in misspelt.items() if where == domain}
        for name in sorted(expected - respelt):
            if not counts.get(name):
                message = f"has no image of the class '{name}'"
                yield Finding("missing-class", severity, message, cure, domain=domain)


def _absence(domain: str, copy: BenchmarkCopy) -> tuple[Severity, str]:
    """Severity and cure of a class that is missing in a domain."""
    if domain in copy.complete:
        return "note", "It was published without. The labels of other classes do not shift."
    if domain in copy.published:
        return "fault", copy.get_again
    return "warning", "Add images if it should have some. Labels of other classes do not shift."


def _misspelt(index: ImageIndex, copy: BenchmarkCopy) -> dict[tuple[str, str], str]:
    """The right class name, by domain and misspelt name.

    Two names mean one class if they differ only in case, spaces, hyphens and underscores, or if
    they are similar and no domain has both. The right one is the published one, or that of more
    domains, or of more images.
    """
    counts = index.counts()
    domains_of = {
        name: {domain for domain, classes in counts.items() if classes[name]}
        for name in index.class_names
    }
    images = {name: sum(c[name] for c in counts.values()) for name in index.class_names}
    known = copy.class_names

    def rank(name: str) -> tuple[bool, int, int]:
        return name in known, len(domains_of[name]), images[name]

    misspelt = dict[tuple[str, str], str]()
    for a, b in combinations(index.class_names, 2):
        same = folded_name(a) == folded_name(b)
        if same or (
            not domains_of[a] & domains_of[b] and _similar(a, b) and not {a, b} <= set(known)
        ):
            wrong, right = sorted((a, b), key=rank)
            misspelt |= {(domain, wrong): right for domain in domains_of[wrong]}
    for name in index.class_names if known else ():
        if folded_name(name) in map(folded_name, known) or any(name == n for _, n in misspelt):
            continue
        near = [n for n in known if _similar(name, n) and n not in index.class_names]
        misspelt |= {(domain, name): near[0] for domain in domains_of[name] if near}
    return misspelt


def _similar(a: str, b: str) -> bool:
    """Whether one name may be a misspelling of the other; different digits mean different names.

    Example:
        >>> _similar("giraff", "giraffe"), _similar("horse", "house"), _similar("no_1", "no_2")
        (True, True, False)
    """
    digits = [[c for c in name if c.isdigit()] for name in (a, b)]
    ratio = difflib.SequenceMatcher(None, folded_name(a), folded_name(b)).ratio()
    return digits[0] == digits[1] and ratio >= NEAR


def _small(index: ImageIndex, copy: BenchmarkCopy) -> Iterator[Finding]:
    for domain, classes in index.counts().items():
        images = sum(classes.values())
        severity: Severity = "note" if domain in copy.complete else "warning"
        if images < MIN_DOMAIN:
            message = f"has only {images} images: accuracy on its validation split is imprecise"
            yield Finding("tiny-domain", severity, message, "Add images.", domain=domain)
        for name, count in classes.items():
            if 0 < count < MIN_CLASS:
                message = f"has only {count} images of the class '{name}': a validation split may "
                message += "have none"
                yield Finding("tiny-class", severity, message, "Add images.", domain=domain)
