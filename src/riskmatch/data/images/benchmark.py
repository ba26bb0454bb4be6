"""What is known of a benchmark of images: its facts, and where its files come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from riskmatch.data.fetch import Check, digest
from riskmatch.data.images.archives import check_archive, extract, stem
from riskmatch.data.images.index import spelt
from riskmatch.data.images.packed import check_parquet
from riskmatch.data.progress import OnProgress

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Part:
    """A domain of a benchmark."""

    name: str
    images: int
    """As published."""
    folder: str
    """Its name in the archives; another case, and spaces for underscores, are accepted too."""

    def is_called(self, name: str) -> bool:
        """Whether a folder of this name holds the domain."""
        return squeezed(name) in (squeezed(self.name), squeezed(self.folder))


@dataclass(frozen=True)
class Download:
    """A file that is fetched."""

    name: str
    """On this machine, and under a mirror of one's own."""
    urls: tuple[str, ...]
    """Tried in this order."""
    checksum: str | None = None
    """``md5:…`` or ``sha256:…``, where one is published; else the counts of images must do."""

    @property
    def check(self) -> Check:
        """What the file must pass before it gets its name."""
        kind: Check = _not_empty
        if stem(self.name):
            kind = check_archive
        elif self.name.endswith(".parquet"):
            kind = check_parquet
        if self.checksum is None:
            return kind
        algorithm, _, expected = self.checksum.partition(":")
        same = digest(algorithm, expected)

        def check(path: Path) -> None:
            kind(path)  # first, for it is quick and says more
            same(path)

        return check


Prepare = Callable[[Mapping[str, Path], Path, OnProgress | None], None]
"""From the files by name, write ``domain/class/image`` somewhere below the folder given."""


def unpack(files: Mapping[str, Path], tree: Path, on_progress: OnProgress | None = None) -> None:
    """Prepare archives that hold the images as they should lie."""
    for path in files.values():
        extract(path, tree, on_progress=on_progress)


@dataclass(frozen=True)
class Origin:
    """One way to have a benchmark."""

    files: tuple[Download, ...]
    """All of them are needed."""
    prepare: Prepare = unpack
    package: str | None = None
    """What must be importable."""
    extra: str | None = None
    """The extra of riskmatch that installs the package."""
    caution: str | None = None
    """In what its images differ from those that methods are compared by."""

    @property
    def has_checksums(self) -> bool:
        """Whether every file that holds images has one."""
        return all(file.checksum for file in self.files if not file.name.endswith(".txt"))


@dataclass(frozen=True)
class Benchmark:
    """The facts of a data set of images, in one place."""

    name: str
    title: str
    parts: tuple[Part, ...]
    """Its domains."""
    classes: int
    licence: str
    citation: str
    page: str
    """Where its authors describe it."""
    origins: tuple[Origin, ...]
    """Tried in this order."""
    class_names: tuple[str, ...] = ()
    """Sorted; empty where only their number is known."""
    reissued: int | None = None
    """How many images the archives hold today, where that is known to differ from the published."""
    spellings: tuple[str, ...] = ()
    """Other names of its folder or archive, without their ending."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of its domains."""
        return tuple(part.name for part in self.parts)

    @property
    def images(self) -> int:
        """How many there are, as published."""
        return sum(part.images for part in self.parts)

    def is_called(self, name: str) -> bool:
        """Whether a folder or archive of this name is of the benchmark."""
        return squeezed(name) in {squeezed(said) for said in (self.name, *self.spellings)}


def squeezed(name: str) -> str:
    r"""A name without what spellings differ in.

    Example:
        >>> squeezed("Real World") == squeezed("real_world")
        True
        >>> squeezed("Caf\u00e9") == squeezed("cafe\u0301")
        True
    """
    return re.sub(r"[\s_-]+", "", spelt(name)).lower()


def _not_empty(path: Path) -> None:
    if not path.stat().st_size:
        raise ValueError("empty")
