"""Unpack tar, zip and Parquet files of images safely."""

from __future__ import annotations

import gzip
import json
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.images.index import EXTENSIONS, is_junk
from riskmatch.data.parquet import parquet_errors, parquet_file

ARCHIVE_EXTENSIONS = (".tar.gz", ".tgz", ".tar", ".zip")
CHUNK = 1 << 20
PARQUET_COLUMNS = ("image", "label", "domain")
PARQUET_BATCH = 256
"""Rows of a Parquet file in memory at a time."""

Target = Callable[[str], str | None]
"""Maps the path of a file in the archive to its path in the folder; None skips the file."""
Member = tuple[str, Callable[[], IO[bytes]]]
"""The name of a file in an archive, and a function that opens it."""


@dataclass
class Limits:
    """What the archives of a data set may unpack to."""

    bytes: int = sys.maxsize
    """Most bytes."""
    files: int = sys.maxsize
    """Most files, those that are skipped included."""
    _bytes: int = field(default=0, init=False)
    _files: int = field(default=0, init=False)

    def add(self, archive: Path, *, bytes: int = 0, files: int = 0) -> None:
        """Count what an archive unpacks to; raise ``ValueError`` beyond a limit."""
        self._bytes, self._files = self._bytes + bytes, self._files + files
        if self._bytes > self.bytes:
            raise ValueError(f"{archive} unpacks to more than {self.bytes:,} bytes")
        if self._files > self.files:
            raise ValueError(f"{archive} holds more than {self.files:,} files")


def extract(
    archive: Path,
    folder: Path,
    target: Target = str,
    on_progress: OnProgress = no_progress,
    limits: Limits | None = None,
) -> None:
    """Unpack the files of a tar or zip archive into a folder.

    Hidden files and the files of file managers are skipped.

    Args:
        archive: tar, tar.gz or zip, detected by content.
        folder: created where it does not exist.
        target: path in the folder for each file of the archive, by its path in the archive.
        on_progress: called after every file with the bytes of the archive read.
        limits: most bytes and files, counted over all archives with the same limits.

    Raises:
        ValueError: the archive is damaged or encrypted, is beyond the limits, or is unsafe: a path
            outside the folder, a link, a device.
    """
    size, limits = archive.stat().st_size, limits or Limits()
    with archive_errors(archive), open(archive, "rb") as packed:
        for name, opened in _members(archive, packed):
            limits.add(archive, files=1)
            parts = _safe_parts(archive, name)
            path = None if any(map(is_junk, parts)) else target("/".join(parts))
            if path is None:
                continue
            file = folder.joinpath(*_safe_parts(archive, path))
            file.parent.mkdir(parents=True, exist_ok=True)
            with opened() as source, open(file, "wb") as out:
                while piece := source.read(CHUNK):
                    limits.add(archive, bytes=len(piece))
                    out.write(piece)
            on_progress(f"unpacking {archive.name}", min(packed.tell(), size - 1), size)
    on_progress(f"unpacking {archive.name}", size, size)


def check_archive(path: Path) -> None:
    """Raise ``ValueError`` unless a file has the signature of a tar or zip archive."""
    if not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        raise ValueError("neither a tar nor a zip archive")


def archive_stem(name: str) -> str | None:
    """The name of an archive without its extension; None for other files.

    Example:
        >>> archive_stem("PACS.tar.gz"), archive_stem("PACS.txt")
        ('PACS', None)
    """
    matches = (end for end in ARCHIVE_EXTENSIONS if name.lower().endswith(end))
    return next((name[: -len(end)] for end in matches), None)


@contextmanager
def archive_errors(archive: Path) -> Iterator[None]:
    """Turn errors of archive libraries into a ``ValueError`` that names the archive."""
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{archive} is damaged: {error}") from error
    except RuntimeError as error:  # zipfile raises it for encryption and unknown compression
        raise ValueError(f"{archive} cannot be unpacked: {error}") from error


def _members(archive: Path, packed: IO[bytes]) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(packed) as files:
            for info in files.infolist():
                if (info.external_attr >> 16) & 0o170000 == 0o120000:
                    _refuse(archive, info.filename, "a link")
                if not info.is_dir():
                    yield info.filename, partial(files.open, info)
    else:
        with tarfile.open(fileobj=packed) as stream:
            for member in stream:
                if member.issym() or member.islnk():
                    _refuse(archive, member.name, "a link")
                if not (member.isfile() or member.isdir()):
                    _refuse(archive, member.name, "a device")
                if member.isfile():
                    yield member.name, partial(stream.extractfile, member)  # type: ignore[misc]
            while stream.fileobj and stream.fileobj.read(CHUNK):
                pass  # gzip verifies its checksum only at the end of the stream


def _safe_parts(archive: Path, name: str) -> tuple[str, ...]:
    """Parts of a relative path that stays below its folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not path.parts:
        _refuse(archive, name, "a path outside the folder")
    return path.parts


def _refuse(archive: Path, name: str, reason: str) -> None:
    raise ValueError(f"{archive} is unsafe to unpack: {name!r} is {reason}")


def unpack_parquet(
    files: Mapping[str, Path],
    tree: Path,
    on_progress: OnProgress = no_progress,
    limits: Limits | None = None,
) -> None:
    """Write the images of Parquet files as ``tree/domain/class/number.extension``.

    The format is that of the Hugging Face hub: ``image`` is a struct with ``bytes`` and their
    original ``path``; ``label`` and ``domain`` are names, or numbers whose names are in the file's
    schema.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a file has another format, or is beyond the limits.
    """
    written, limits = 0, limits or Limits()
    for path in files.values():
        table, before, size = parquet_file(path), written, path.stat().st_size
        columns = table.schema_arrow.names
        if missing := [column for column in PARQUET_COLUMNS if column not in columns]:
            raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)}")
        names = {c: _hub_names(table.schema_arrow.metadata, c) for c in ("domain", "label")}
        for rows in _parquet_rows(path, table):
            for row in rows:
                try:
                    content, suffix = row["image"]["bytes"], Path(row["image"]["path"] or "").suffix
                    limits.add(path, bytes=len(content), files=1)
                    folder = tree.joinpath(*(_folder_name(row[c], names[c]) for c in names))
                except (TypeError, KeyError, IndexError) as error:
                    raise ValueError(f"{path} has another format: {error!r}") from error
                folder.mkdir(parents=True, exist_ok=True)
                extension = suffix.lower() if suffix.lower() in EXTENSIONS else ".jpg"
                (folder / f"{written:06d}{extension}").write_bytes(content)
                written += 1
            share = (written - before) / table.metadata.num_rows
            on_progress(f"unpacking {path.name}", round(share * size), size)


def _parquet_rows(path: Path, table: Any) -> Iterator[list[dict[str, Any]]]:
    """Rows of a Parquet file of images, some at a time."""
    with parquet_errors(path):
        for batch in table.iter_batches(PARQUET_BATCH, columns=list(PARQUET_COLUMNS)):
            yield batch.to_pylist()


def check_parquet(path: Path) -> None:
    """Raise ``ValueError`` unless a file starts and ends with the Parquet signature."""
    with open(path, "rb") as file:
        start = file.read(4)
        file.seek(-min(4, path.stat().st_size), 2)
        if (start, file.read(4)) != (b"PAR1", b"PAR1"):
            raise ValueError("not a complete Parquet file")


def _hub_names(metadata: Mapping[bytes, bytes] | None, column: str) -> list[str] | None:
    """Names of the numbers in a column, from the description that the hub adds to a file."""
    description = json.loads((metadata or {}).get(b"huggingface", b"{}"))
    features = description.get("info", {}).get("features", {})
    names = features.get(column, {}).get("names") if isinstance(features, dict) else None
    return names if isinstance(names, list) else None


def _folder_name(value: Any, names: list[str] | None) -> str:
    """A class or domain as the name of a single folder."""
    name = str(value if names is None else names[value])
    if name in ("", ".", "..") or any(sign in name for sign in "/\\:\0"):
        raise ValueError(f"{name!r} cannot be the name of a folder")
    return name
