"""Archives, unpacked so that nothing of theirs lands outside the folder it was meant for."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from riskmatch.data.images.folder import is_junk
from riskmatch.data.progress import OnProgress

ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
"""How the names of archives end."""
MOST = 20
"""An archive may unpack to this many times its size: images hardly shrink when they are packed."""
FLOOR = 64 << 20
"""Bytes that any archive may unpack to."""
CHUNK = 1 << 20

Place = Callable[[str], str | None]
"""Where in the folder a file of the archive goes; None leaves it out."""
Member = tuple[str, Callable[[], IO[bytes]]]
"""The name of a file in an archive, and how to open it."""


def extract(
    archive: Path, folder: Path, place: Place = str, on_progress: OnProgress | None = None
) -> None:
    """Unpack the files of a tar or zip archive into a folder.

    Hidden files and what file managers leave behind are passed over.

    Args:
        archive: tar, tar.gz or zip, told apart by content.
        folder: made where it does not exist.
        place: the path in the folder of each file of the archive, by its path in the archive.
        on_progress: told after every file how many bytes of the archive are read.

    Raises:
        ValueError: the archive is damaged or encrypted, or it holds what an archive of images
            never needs: a path out of the folder, a link, a device, or far more bytes than its own
            size.
    """
    size = archive.stat().st_size
    report: OnProgress = (lambda *_: None) if on_progress is None else on_progress
    left = max(FLOOR, MOST * size)
    with reading(archive), open(archive, "rb") as packed:
        for name, opened in _members(archive, packed):
            parts = _parts(archive, name)
            path = None if any(map(is_junk, parts)) else place("/".join(parts))
            if path is None:
                continue
            target = folder.joinpath(*_parts(archive, path))
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened() as source, open(target, "wb") as file:
                while piece := source.read(CHUNK):
                    left -= len(piece)
                    if left < 0:
                        raise ValueError(f"{archive} unpacks to more than {MOST} times its size")
                    file.write(piece)
            report(f"unpacking {archive.name}", min(packed.tell(), size - 1), size)
    report(f"unpacking {archive.name}", size, size)


def check_archive(path: Path) -> None:
    """Raise ``ValueError`` unless a file begins as an archive does, and a zip also ends as one."""
    if not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        raise ValueError("neither a tar nor a zip archive")


def stem(name: str) -> str | None:
    """The name of an archive without its ending; None where it does not end as one.

    Example:
        >>> stem("PACS.tar.gz"), stem("PACS.txt")
        ('PACS', None)
    """
    return next((name[: -len(end)] for end in ENDINGS if name.lower().endswith(end)), None)


def _members(archive: Path, packed: IO[bytes]) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(packed) as files:
            for info in files.infolist():
                if (info.external_attr >> 16) & 0o170000 == 0o120000:
                    _refuse(archive, info.filename, "a link")
                if not info.is_dir():
                    yield info.filename, lambda info=info: files.open(info)  # type: ignore[misc]
    else:
        with tarfile.open(fileobj=packed) as stream:
            for member in stream:
                if member.issym() or member.islnk():
                    _refuse(archive, member.name, "a link")
                if not (member.isfile() or member.isdir()):
                    _refuse(archive, member.name, "a device")
                if member.isfile():
                    yield member.name, lambda member=member: stream.extractfile(member)  # type: ignore[misc]
            while stream.fileobj and stream.fileobj.read(CHUNK):
                pass  # the sum that tells of damage is at the very end


def _parts(archive: Path, name: str) -> tuple[str, ...]:
    """The parts of a path, which must stay below the folder it is relative to."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
        _refuse(archive, name, "a path out of the folder")
    return path.parts


def _refuse(archive: Path, name: str, what: str) -> None:
    raise ValueError(f"{archive} is not safe to unpack: {name!r} is {what}")


@contextmanager
def reading(archive: Path) -> Iterator[None]:
    """What goes wrong while an archive is read, as a ``ValueError`` that names it."""
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{archive} is damaged: {error}") from error
    except RuntimeError as error:  # zipfile's, of a file that is encrypted or oddly compressed
        raise ValueError(f"{archive} cannot be unpacked: {error}") from error
