"""The image benchmarks: facts, which are in ``benchmarks.json``, and places on this machine.

Numbers of images are those of DomainBed (Gulrajani and Lopez-Paz, ICLR 2021). The URLs of files on
Google Drive skip the warning about their size.
"""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from riskmatch.data.fetch import check_digest, data_folders, not_here
from riskmatch.data.images.index import Entry, ImageIndex, is_junk, normalised_name, scan
from riskmatch.data.table_files import parquet_file

ARCHIVE_EXTENSIONS = (".tar.gz", ".tgz", ".tar", ".zip")
DEPTH = 3
"""Levels of folders that are searched for the domains in an unpacked archive."""


class BenchmarkDomain(NamedTuple):
    """A domain of a benchmark."""

    name: str
    images: int
    """Number of images as published."""
    folder: str
    """Name in the archives; other case, and spaces for underscores, are accepted too."""

    def matches(self, name: str) -> bool:
        """Whether a folder of this name holds the domain."""
        return folded_name(name) in (folded_name(self.name), folded_name(self.folder))


@dataclass(frozen=True)
class Download:
    """A file to download."""

    name: str
    """File name on this machine and on a mirror."""
    urls: tuple[str, ...]
    """URLs for :func:`~riskmatch.data.fetch.fetch`, tried in this order."""
    checksum: str | None = None
    """``md5:…`` or ``sha256:…`` where one is published; else the number of images is checked."""

    @property
    def is_parquet(self) -> bool:
        """Whether reading it needs pyarrow."""
        return self.name.endswith(".parquet")

    def check(self, path: Path) -> None:
        """Raise ``ValueError`` unless a file has the right format and checksum."""
        if not path.stat().st_size:
            raise ValueError("empty")
        if archive_stem(self.name) and not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
            raise ValueError("neither a tar nor a zip archive")
        if self.is_parquet:
            parquet_file(path)
        if self.checksum is not None:  # last: the other checks are quick and say more
            algorithm, _, expected = self.checksum.partition(":")
            check_digest(path, algorithm, expected)


@dataclass(frozen=True)
class Origin:
    """One way to obtain a benchmark."""

    files: tuple[Download, ...]
    """Files that are all needed."""
    convert: str = "unpack"
    """Name in :data:`~riskmatch.data.images.archives.CONVERTERS`."""
    caution: str | None = None
    """How its images differ from those that published results use."""


@dataclass(frozen=True)
class Benchmark:
    """A published data set of images."""

    name: str
    title: str
    parts: tuple[BenchmarkDomain, ...]
    classes: int
    licence: str
    citation: str
    page: str
    """URL of its description."""
    megabytes: int
    """Size of the largest of its origins, whose images hardly compress."""
    origins: tuple[Origin, ...]
    """Tried in this order."""
    class_names: tuple[str, ...] = ()
    """Sorted class names; empty where only their number is known."""
    reissued: int | None = None
    """Number of images in today's archives, where it differs from the published one."""
    spellings: tuple[str, ...] = ()
    """Other names of its folder or archive, without extension."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains."""
        return tuple(part.name for part in self.parts)

    @property
    def images(self) -> int:
        """Number of images as published."""
        return sum(part.images for part in self.parts)

    def matches(self, name: str) -> bool:
        """Whether a folder or archive of this name is that of the benchmark."""
        return folded_name(name) in {folded_name(known) for known in (self.name, *self.spellings)}


BENCHMARKS: dict[str, Benchmark] = {
    name: msgspec.convert({"name": name, **facts}, Benchmark)
    for name, facts in json.loads(
        Path(__file__).with_name("benchmarks.json").read_text(encoding="utf-8")
    ).items()
}


def archive_stem(name: str) -> str | None:
    """The name of an archive without its extension; None for other files.

    Example:
        >>> archive_stem("PACS.tar.gz"), archive_stem("PACS.txt")
        ('PACS', None)
    """
    matches = (end for end in ARCHIVE_EXTENSIONS if name.lower().endswith(end))
    return next((name[: -len(end)] for end in matches), None)


def folded_name(name: str) -> str:
    r"""A name in lower case without spaces, hyphens and underscores, for comparison.

    Example:
        >>> folded_name("Real World") == folded_name("real_world")
        True
        >>> folded_name("Caf\u00e9") == folded_name("cafe\u0301")
        True
    """
    return re.sub(r"[\s_-]+", "", normalised_name(name)).lower()


def load_index(
    benchmark: Benchmark, data_dir: Path | None = None, group: str | None = None
) -> ImageIndex:
    """The images of a benchmark on this machine.

    Args:
        benchmark: one of :data:`BENCHMARKS`.
        data_dir: folder to search first; it holds the domains or a folder of them.
        group: ``stem`` or None, see :meth:`ImageIndex.grouped`.

    Raises:
        FileNotFoundError: the benchmark is not on this machine; the message says how to get it.
    """
    return index_benchmark(benchmark, locate(benchmark, data_dir)).grouped(group)


def locate(benchmark: Benchmark, data_dir: Path | None = None) -> Path:
    """As :func:`find_benchmark`; raises ``FileNotFoundError`` where there is none."""
    folder = find_benchmark(benchmark, data_dir)
    if folder is None:
        searched = (base / benchmark.name for base in data_folders(data_dir))
        raise not_here(benchmark.title, benchmark.name, layout(benchmark), searched)
    return folder


def find_benchmark(benchmark: Benchmark, data_dir: Path | None = None) -> Path | None:
    """The folder with all domains of a benchmark; None where there is none.

    It has the name of the benchmark, in any case, and is in ``data_dir``, in the folder of the
    variable ``RISKMATCH_DATA`` or in the cache; or it is ``data_dir`` itself.
    """
    for base in data_folders(data_dir):
        for folder in _subfolders(base):
            if benchmark.matches(folder.name) and not missing_domains(benchmark, folder):
                return folder
        if base == data_dir and not missing_domains(benchmark, base):
            return base
    return None


def index_benchmark(benchmark: Benchmark, root: Path) -> ImageIndex:
    """The images of a benchmark below ``root``, with the benchmark's own names and labels."""
    names = {folded_name(name): name for name in benchmark.class_names}
    entries = [
        Entry(
            entry.path,
            names.get(folded_name(str(entry.label)), entry.label),
            next((p.name for p in benchmark.parts if p.matches(entry.domain)), entry.domain),
        )
        for entry in scan(root)
    ]
    index = ImageIndex.of(benchmark.name, root, entries, benchmark.class_names, benchmark.domains)
    if len(index.class_names) != benchmark.classes:
        number = len(index.class_names)
        raise ValueError(
            f"{benchmark.title} in {root} has {number} classes, not {benchmark.classes}."
        )
    return index.ranked()


def check_counts(benchmark: Benchmark, index: ImageIndex) -> None:
    """Raise ``ValueError`` unless every domain has the published number of images.

    The total of archives that were issued again is accepted too.
    """
    counts = index.domain_sizes()
    wrong = [
        f"{part.name} has {counts[part.name]:,} images, not {part.images:,}"
        for part in benchmark.parts
        if counts[part.name] != part.images
    ]
    if wrong and len(index) != benchmark.reissued:
        raise ValueError("; ".join(wrong))


def find_tree(benchmark: Benchmark, folder: Path) -> Path | None:
    """The folder with all domains that is nearest to ``folder``, itself or below."""
    level = [folder]
    for _ in range(DEPTH):
        for candidate in level:
            if not missing_domains(benchmark, candidate):
                return candidate
        level = [child for candidate in level for child in _subfolders(candidate)]
    return None


def missing_domains(benchmark: Benchmark, folder: Path) -> list[str]:
    """Domains without a folder in ``folder``."""
    names = [child.name for child in _subfolders(folder)]
    return [part.name for part in benchmark.parts if not any(map(part.matches, names))]


def layout(benchmark: Benchmark) -> str:
    """The folders of a benchmark, for messages."""
    first, *others = (part.folder for part in benchmark.parts)
    label = benchmark.class_names[0] if benchmark.class_names else "<class>"
    return f"{first}/{label}/<image> (likewise {', '.join(others)})"


def _subfolders(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not is_junk(path.name):
                yield path
