"""Which images there are, and what is on each."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from riskmatch.validation import check_option


class Entry(NamedTuple):
    """One image, by names."""

    path: str
    """Relative to the root of its data set, with forward slashes."""
    label: str
    domain: str


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """The images of a data set, sorted by domain, class and path.

    There is one map from class names to labels for all domains, so a class that a domain lacks
    shifts no label.

    Example:
        >>> entries = [Entry("b/dog/1.png", "dog", "b"), Entry("a/cat/1.png", "cat", "a")]
        >>> index = ImageIndex.of("pets", Path("data"), entries)
        >>> index.class_names, index.labels, index.domain_names, index.domains
        (('cat', 'dog'), (0, 1), ('a', 'b'), (0, 1))
    """

    name: str
    root: Path
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    paths: tuple[str, ...]
    """(n) relative to the root, with forward slashes."""
    labels: tuple[int, ...]
    """(n) places in ``class_names``."""
    domains: tuple[int, ...]
    """(n) places in ``domain_names``."""

    @classmethod
    def of(
        cls,
        name: str,
        root: Path,
        entries: Iterable[Entry],
        class_names: Sequence[str] | None = None,
        domain_names: Sequence[str] | None = None,
    ) -> ImageIndex:
        """The index of ``entries``; class and domain names are sorted unless they are given.

        Names of classes and domains are :func:`spelt` in one way; paths stay as they are.
        """
        found = [Entry(path, spelt(label), spelt(domain)) for path, label, domain in entries]
        classes = tuple(class_names or sorted({entry.label for entry in found}))
        domains = tuple(domain_names or sorted({entry.domain for entry in found}))
        label_of = {label: place for place, label in enumerate(classes)}
        domain_of = {domain: place for place, domain in enumerate(domains)}
        for entry in found:
            if entry.label not in label_of:
                check_option(f"class of '{name}'", entry.label, classes)
            if entry.domain not in domain_of:
                check_option(f"domain of '{name}'", entry.domain, domains)
        rows = sorted((domain_of[e.domain], label_of[e.label], e.path) for e in found)
        return cls(
            name,
            root,
            classes,
            domains,
            paths=tuple(path for _, _, path in rows),
            labels=tuple(label for _, label, _ in rows),
            domains=tuple(domain for domain, _, _ in rows),
        )

    def __len__(self) -> int:
        return len(self.paths)

    def file(self, row: int) -> Path:
        """Where the image of a row lies."""
        return self.root / self.paths[row]

    def counts(self) -> dict[str, dict[str, int]]:
        """How many images each domain has of each class, zeros included."""
        table = {domain: dict.fromkeys(self.class_names, 0) for domain in self.domain_names}
        for label, domain in zip(self.labels, self.domains, strict=True):
            table[self.domain_names[domain]][self.class_names[label]] += 1
        return table


def spelt(name: str) -> str:
    r"""A name in the one spelling that it has here, which can be written to any file.

    An accent may be a character of its own or part of its letter, as systems differ; what is not
    UTF-8 becomes ``\udce9`` and the like.

    Example:
        >>> spelt("cafe\u0301") == spelt("caf\u00e9")
        True
    """
    return unicodedata.normalize("NFC", name).encode("utf-8", "backslashreplace").decode()
