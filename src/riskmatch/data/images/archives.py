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
from riskmatch.data.table_files import parquet_errors, parquet_file

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
class Unpacker:
    """Unpacks the archives of a data set into a folder, up to limits on all of them together."""

    folder: Path
    """Created where it does not exist."""
    on_progress: OnProgress = no_progress
    """Called with the bytes of an archive that have been read."""
    max_bytes: int = sys.maxsize
    max_files: int = sys.maxsize
    """Most files, those that are skipped included."""
    _bytes: int = field(default=0, init=False)
    _files: int = field(default=0, init=False)

    def count(self, archive: Path, *, bytes: int = 0, files: int = 0) -> None:
        """Count what an archive unpacks to; raise ``ValueError`` beyond a limit."""
        self._bytes, self._files = self._bytes + bytes, self._files + files
        if self._bytes > self.max_bytes:
            raise ValueError(f"{archive} unpacks to more than {self.max_bytes:,} bytes")
        if self._files > self.max_files:
            raise ValueError(f"{archive} holds more than {self.max_files:,} files")

    def extract(self, archive: Path, target: Target = str) -> None:
        """Unpack the files of a tar or zip archive.

        Hidden files and the files of file managers are skipped.

        Args:
            archive: tar, tar.gz or zip, detected by content.
            target: path in the folder for each file of the archive, by its path in the archive.

        Raises:
            ValueError: the archive is damaged or encrypted, is beyond the limits, or is unsafe: a
                path outside the folder, a link, a device.
        """
        size = archive.stat().st_size
        with archive_errors(archive), open(archive, "rb") as packed:
            for name, opened in _members(archive, packed):
                self.count(archive, files=1)
                parts = _safe_parts(archive, name)
                path = None if any(map(is_junk, parts)) else target("/".join(parts))
                if path is None:
                    continue
                file = self.folder.joinpath(*_safe_parts(archive, path))
                file.parent.mkdir(parents=True, exist_ok=True)
                with opened() as source, open(file, "wb") as out:
                    while piece := source.read(CHUNK):
                        self.count(archive, bytes=len(piece))
                        out.write(piece)
                self.on_progress(f"unpacking {archive.name}", min(packed.tell(), size - 1), size)
        self.on_progress(f"unpacking {archive.name}", size, size)

    def extract_parquet(self, path: Path) -> None:
        """Write the images of a Parquet file as ``domain/class/number.extension``.

        The format is that of the Hugging Face hub: ``image`` is a struct with ``bytes`` and their
        original ``path``; ``label`` and ``domain`` are names, or numbers whose names are in the
        file's schema.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: the file has another format, or is beyond the limits.
        """
        table, before, size = parquet_file(path), self._files, path.stat().st_size
        columns = table.schema_arrow.names
        if missing := [column for column in PARQUET_COLUMNS if column not in columns]:
            raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)}")
        names = {c: _hub_names(table.schema_arrow.metadata, c) for c in ("domain", "label")}
        for rows in _parquet_rows(path, table):
            for row in rows:
                try:
                    content, suffix = row["image"]["bytes"], Path(row["image"]["path"] or "").suffix
                    self.count(path, bytes=len(content), files=1)
                    folders = [_folder_name(row[c], names[c]) for c in names]
                except (TypeError, KeyError, IndexError) as error:
                    raise ValueError(f"{path} has another format: {error!r}") from error
                extension = suffix.lower() if suffix.lower() in EXTENSIONS else ".jpg"
                file = self.folder.joinpath(*folders, f"{self._files - 1:06d}{extension}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            share = (self._files - before) / table.metadata.num_rows
            self.on_progress(f"unpacking {path.name}", round(share * size), size)


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


def _parquet_rows(path: Path, table: Any) -> Iterator[list[dict[str, Any]]]:
    """Rows of a Parquet file of images, some at a time."""
    with parquet_errors(path):
        for batch in table.iter_batches(PARQUET_BATCH, columns=list(PARQUET_COLUMNS)):
            yield batch.to_pylist()


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
