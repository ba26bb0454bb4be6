"""Classes that are missing, misspelt or nearly empty."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import combinations

from riskmatch.data.doctor.benchmark import Copy
from riskmatch.data.doctor.examination import Finding, Severity
from riskmatch.data.images.benchmark import squeezed
from riskmatch.data.images.index import ImageIndex

FEW_IN_DOMAIN = 50
"""Images of a domain below which a fifth, held out, measures accuracy in steps of 10 %."""
FEW_IN_CLASS = 5
"""Images of a class below which a fifth, held out, holds none."""
NEAR = 0.8
"""The likeness of two names, by difflib, from which one may be the other misspelt."""


def check_classes(index: ImageIndex, copy: Copy) -> Iterator[Finding]:
    """The findings on the names and numbers of classes."""
    misspelt = _misspelt(index, copy)
    for (domain, name), right in misspelt.items():
        known = copy.benchmark is not None and right in copy.benchmark.class_names
        certain = known or squeezed(name) == squeezed(right)
        yield Finding(
            "renamed-class",
            "fault" if certain else "warning",
            f"has a class '{name}' where '{right}' is expected: labels would tell them apart",
            f"{'Rename' if certain else 'If they are one, rename'} {domain}/{name} to {right}.",
            domain=domain,
        )
    yield from _missing(index, copy, misspelt)
    yield from _few(index, copy)


def _missing(
    index: ImageIndex, copy: Copy, misspelt: dict[tuple[str, str], str]
) -> Iterator[Finding]:
    """Classes that no domain has, or that some have and one has not."""
    wrong = {name for _, name in misspelt}
    expected = {name for name in index.class_names if name not in wrong} | set(misspelt.values())
    for name in copy.benchmark.class_names if copy.benchmark else ():
        if squeezed(name) not in map(squeezed, expected):
            message = f"has no image of the class '{name}'"
            yield Finding("missing-class", "fault", message, copy.get_again)
    for domain, counts in index.counts().items():
        severity, cure = _absence(domain, copy)
        respelt = {right for (home, _), right in misspelt.items() if home == domain}
        for name in sorted(expected - respelt):
            if not counts.get(name):
                message = f"has no image of the class '{name}'"
                yield Finding("missing-class", severity, message, cure, domain=domain)


def _absence(domain: str, copy: Copy) -> tuple[Severity, str]:
    """How grave it is that a domain lacks a class, and the cure."""
    if domain in copy.faithful:
        return "note", "It was published so. Labels of other classes do not shift."
    if domain in copy.published:
        return "fault", copy.get_again
    return "warning", "If that is not meant, add images. Labels of other classes do not shift."


def _misspelt(index: ImageIndex, copy: Copy) -> dict[tuple[str, str], str]:
    """By domain and name of class, the name that it should have.

    Two names are one class if they differ in case, spaces, hyphens and underscores alone, or if
    they are near and no domain has both. The one that was published is right, or that of more
    domains, or of more images.
    """
    counts = index.counts()
    homes = {
        name: {domain for domain, classes in counts.items() if classes[name]}
        for name in index.class_names
    }
    images = {name: sum(c[name] for c in counts.values()) for name in index.class_names}
    known = copy.benchmark.class_names if copy.benchmark else ()

    def standing(name: str) -> tuple[bool, int, int]:
        return name in known, len(homes[name]), images[name]

    found = dict[tuple[str, str], str]()
    for a, b in combinations(index.class_names, 2):
        same = squeezed(a) == squeezed(b)
        if same or (not homes[a] & homes[b] and _near(a, b) and not {a, b} <= set(known)):
            wrong, right = sorted((a, b), key=standing)
            found |= {(domain, wrong): right for domain in homes[wrong]}
    for name in index.class_names if known else ():
        if squeezed(name) in map(squeezed, known) or any(name == n for _, n in found):
            continue
        near = [right for right in known if _near(name, right) and right not in index.class_names]
        found |= {(domain, name): near[0] for domain in homes[name] if near}
    return found


def _near(a: str, b: str) -> bool:
    """Whether one name may be the other misspelt; numbers that differ tell names apart.

    Example:
        >>> _near("giraff", "giraffe"), _near("horse", "house"), _near("class_1", "class_2")
        (True, True, False)
    """
    digits = [[c for c in name if c.isdigit()] for name in (a, b)]
    likeness = difflib.SequenceMatcher(None, squeezed(a), squeezed(b)).ratio()
    return digits[0] == digits[1] and likeness >= NEAR


def _few(index: ImageIndex, copy: Copy) -> Iterator[Finding]:
    for domain, classes in index.counts().items():
        images = sum(classes.values())
        severity: Severity = "note" if domain in copy.faithful else "warning"
        if images < FEW_IN_DOMAIN:
            message = f"has only {images} images: what is held out of it measures little"
            yield Finding("tiny-domain", severity, message, "Add images.", domain=domain)
        for name, count in classes.items():
            if 0 < count < FEW_IN_CLASS:
                message = f"has only {count} of the class '{name}': a split may hold out none"
                yield Finding("tiny-class", severity, message, "Add images.", domain=domain)
