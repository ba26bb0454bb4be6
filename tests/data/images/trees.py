"""Small image trees and small versions of the benchmarks."""

import io
import tarfile
import zipfile
from dataclasses import replace

from riskmatch.data.images.benchmark import BENCHMARKS, BenchmarkDomain

PACS = BENCHMARKS["pacs"]

SMALL = {"art_painting": 3, "cartoon": 2, "photo": 2, "sketch": 4}
"""Images per domain of the small PACS."""


def small(benchmark, count=1, **changes):
    """A benchmark with ``count`` images in each domain."""
    parts = tuple(BenchmarkDomain(part.name, count, part.folder) for part in benchmark.parts)
    return replace(benchmark, parts=parts, **changes)


def small_pacs(*origins):
    parts = tuple(BenchmarkDomain(name, images, name) for name, images in SMALL.items())
    return replace(PACS, parts=parts, origins=origins)


def pacs_files(prefix=""):
    """Files of the small PACS by path; every class is in some domain."""
    labels = PACS.class_names
    paths = [(domain, k) for domain, images in SMALL.items() for k in range(images)]
    return {
        f"{prefix}{domain}/{labels[place % 7]}/{k}.jpg": f"{domain} {k}".encode()
        for place, (domain, k) in enumerate(paths)
    }


def plant(root, files):
    """Write files by path below a folder."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return root


def tarred(files, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def locked(packed):
    """The zip with its first file marked as encrypted."""
    return marked(packed, (6, 8), 1)


def marked(packed, places, value):
    """The zip with a byte changed in the header of its first file and in its directory."""
    changed = bytearray(packed)
    for head, place in zip((b"PK\x03\x04", b"PK\x01\x02"), places, strict=True):
        changed[changed.index(head) + place] = value
    return bytes(changed)


def contents(root):
    """Contents of all files below a folder, by path."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
