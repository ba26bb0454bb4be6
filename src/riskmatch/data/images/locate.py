"""Where a benchmark lies on this machine, and which of its images are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from riskmatch.data.images.benchmark import Benchmark, squeezed
from riskmatch.data.images.folder import is_junk, scan
from riskmatch.data.images.index import Entry, ImageIndex
from riskmatch.data.places import VARIABLE, bases

DEPTH = 3
"""Levels of folders below which a tree of domains is not looked for."""


def load_index(benchmark: Benchmark, root: Path | None = None) -> ImageIndex:
    """The images of a benchmark on this machine.

    Args:
        benchmark: one of :data:`~riskmatch.data.images.benchmarks.BENCHMARKS`.
        root: a folder to look in first; the domains or a folder of them are in it.

    Raises:
        FileNotFoundError: it is not on this machine; the message says where it could be.
    """
    return index_benchmark(benchmark, locate(benchmark, root))


def locate(benchmark: Benchmark, root: Path | None = None) -> Path:
    """As :func:`find_benchmark`; ``FileNotFoundError`` says what to do where there is none."""
    folder = find_benchmark(benchmark, root)
    if folder is None:
        looked = ", ".join(str(base / benchmark.name) for base in bases(root))
        raise FileNotFoundError(
            f"{benchmark.title} is not on this machine; looked for {looked}. Fetch it with "
            f"riskmatch data get {benchmark.name}, or place {layout(benchmark)} in one of these, "
            f"or in a folder {benchmark.name} of the one that {VARIABLE} names."
        )
    return folder


def find_benchmark(benchmark: Benchmark, root: Path | None = None) -> Path | None:
    """The folder that has all domains of a benchmark.

    It is called as the benchmark is, in any case, and lies in ``root``, in the folder that
    ``RISKMATCH_DATA`` names, or in the cache; or it is ``root`` itself.
    """
    for base in bases(root):
        for folder in _children(base):
            if benchmark.is_called(folder.name) and has_domains(benchmark, folder):
                return folder
        if base == root and has_domains(benchmark, base):
            return base
    return None


def index_benchmark(benchmark: Benchmark, root: Path) -> ImageIndex:
    """The images of a benchmark below ``root``, with the benchmark's own names and labels."""
    names = {squeezed(name): name for name in benchmark.class_names}
    entries = [
        Entry(
            entry.path,
            names.get(squeezed(entry.label), entry.label),
            next((p.name for p in benchmark.parts if p.is_called(entry.domain)), entry.domain),
        )
        for entry in scan(root)
    ]
    index = ImageIndex.of(benchmark.name, root, entries, benchmark.class_names, benchmark.domains)
    if len(index.class_names) != benchmark.classes:
        raise ValueError(
            f"{benchmark.title} in {root} has {len(index.class_names)} classes, not "
            f"{benchmark.classes}."
        )
    return index


def check_counts(benchmark: Benchmark, index: ImageIndex) -> None:
    """Raise ``ValueError`` unless every domain has as many images as were published.

    The number of an archive that was issued again passes too.
    """
    found = {domain: sum(row.values()) for domain, row in index.counts().items()}
    wrong = [
        f"{part.name} has {found[part.name]:,} images, not {part.images:,}"
        for part in benchmark.parts
        if found[part.name] != part.images
    ]
    if wrong and len(index) != benchmark.reissued:
        raise ValueError("; ".join(wrong))


def find_tree(benchmark: Benchmark, folder: Path, depth: int = DEPTH) -> Path | None:
    """The folder nearest to ``folder``, itself or below, that has all domains."""
    level = [folder]
    for _ in range(depth):
        for place in level:
            if has_domains(benchmark, place):
                return place
        level = [child for place in level for child in _children(place)]
    return None


def has_domains(benchmark: Benchmark, folder: Path) -> bool:
    """Whether every domain has its folder in ``folder``."""
    return not missing_domains(benchmark, folder)


def missing_domains(benchmark: Benchmark, folder: Path) -> list[str]:
    """The domains that have no folder in ``folder``."""
    names = [child.name for child in _children(folder)]
    return [part.name for part in benchmark.parts if not any(map(part.is_called, names))]


def layout(benchmark: Benchmark) -> str:
    """The folders that a person would place."""
    first, *others = (part.folder for part in benchmark.parts)
    label = benchmark.class_names[0] if benchmark.class_names else "<class>"
    return f"{first}/{label}/<image> … and so for {', '.join(others)}"


def _children(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not is_junk(path.name):
                yield path
