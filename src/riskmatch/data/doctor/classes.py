"""Find missing, misspelt and nearly empty classes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import combinations

from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.doctor.published import BenchmarkCopy
from riskmatch.data.images.benchmark import folded_name
from riskmatch.data.images.index import ImageIndex

MIN_DOMAIN = 50
"""Images of a domain below which its validation fifth resolves accuracy only to 10 %."""
MIN_CLASS = 5
"""Images of a class below which a validation fifth has none."""
NEAR = 0.8
"""difflib ratio above which one name may be a misspelling of the other."""


def check_classes(index: ImageIndex, copy: BenchmarkCopy) -> Iterator[Finding]:
    """Findings about the names and sizes of classes."""
    misspelt = _misspelt(index, copy)
    for (domain, name), right in misspelt.items():
        known = copy.benchmark is not None and right in copy.benchmark.class_names
        certain = known or folded_name(name) == folded_name(right)
        yield Finding(
            "renamed-class",
            "fault" if certain else "warning",
            f"has a class '{name}' where '{right}' is expected: they would get different labels",
            f"{'Rename' if certain else 'If they are the same, rename'} {domain}/{name} to "
            f"{right}.",
            domain=domain,
        )
    yield from _missing(index, copy, misspelt)
    yield from _small(index, copy)


def _missing(
    index: ImageIndex, copy: BenchmarkCopy, misspelt: dict[tuple[str, str], str]
) -> Iterator[Finding]:
    """Classes that no domain has, or that a single domain lacks."""
    wrong = {name for _, name in misspelt}
    expected = {name for name in index.class_names if name not in wrong} | set(misspelt.values())
    for name in copy.benchmark.class_names if copy.benchmark else ():
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
    known = copy.benchmark.class_names if copy.benchmark else ()

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
