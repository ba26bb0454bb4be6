"""Unpack the published archives of benchmarks safely, to the layout ``domain/class/image``."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.data.images.index import EXTENSIONS, is_image, is_junk
from riskmatch.data.table_files import parquet_errors, parquet_file

CHUNK = 1 << 20
PARQUET_COLUMNS = ("image", "label", "domain")
PARQUET_BATCH = 256
"""Rows of a Parquet file in memory at a time."""

VLCS_CLASSES = BENCHMARKS["vlcs"].class_names
VLCS_LABELS = {str(number): name for number, name in enumerate(VLCS_CLASSES)}
VLCS_DOMAINS = {"CALTECH": "Caltech101", "LABELME": "LabelMe", "PASCAL": "VOC2007", "SUN": "SUN09"}
VLCS_SPLITS = ("train", "crossval", "test")
"""Splits that together make the domain; a fourth folder, ``full``, repeats the first two."""

DOMAINNET_DUPLICATES = "domain_net_duplicates.txt"
"""List of duplicates that DomainBed publishes, one path ``domain/class/image`` per line."""

TERRA_IMAGES = "eccv_18_all_images_sm.tar.gz"
TERRA_ANNOTATIONS = "caltech_camera_traps.json.zip"
MAX_ANNOTATIONS = 1 << 29
"""Most bytes of the annotations, several times what they have."""
TERRA_DOMAINS = BENCHMARKS["terraincognita"].domains
TERRA_CLASSES = BENCHMARKS["terraincognita"].class_names

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


Convert = Callable[[Mapping[str, Path], Unpacker], None]
"""Given files by name, writes ``domain/class/image`` at any depth below the unpacker's folder."""


def unpack(files: Mapping[str, Path], unpacker: Unpacker, target: Target = str) -> None:
    """Unpack archives, by default those that have the layout already."""
    for path in files.values():
        unpacker.extract(path, target)


def unpack_parquet(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack Parquet files of the Hugging Face hub."""
    for path in files.values():
        unpacker.extract_parquet(path)


def vlcs_target(name: str) -> str | None:
    """Target path of a file of JiGen's archive; None for the repeating folder and other files.

    Example:
        >>> vlcs_target("VLCS/SUN/test/4/test_imgs_1.jpg")
        'SUN09/person/test-test_imgs_1.jpg'
        >>> vlcs_target("VLCS/SUN/full/4/train_imgs_1.jpg")
    """
    *_, domain, split, number, image = ["", "", "", *name.split("/")]
    if domain not in VLCS_DOMAINS or split not in VLCS_SPLITS or number not in VLCS_LABELS:
        return None
    return f"{VLCS_DOMAINS[domain]}/{VLCS_LABELS[number]}/{split}-{image}"


convert_vlcs: Convert = partial(unpack, target=vlcs_target)
"""Unpack VLCS as distributed with JiGen: domains in three splits, classes by number.

``CALTECH/train/0/image`` becomes ``tree/Caltech101/bird/train-image``.
"""


def convert_domainnet(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack DomainNet's six archives without the published duplicates.

    The archives hold the images of the training and test lists together.
    """
    duplicates = read_duplicates(files[DOMAINNET_DUPLICATES])
    archives = {name: path for name, path in files.items() if name != DOMAINNET_DUPLICATES}
    unpack(archives, unpacker, lambda image: None if image in duplicates else image)


def read_duplicates(path: Path) -> frozenset[str]:
    """Paths of the images of DomainNet that are left out."""
    lines = [line.strip() for line in path.read_text("utf-8", errors="replace").splitlines()]
    for line in lines:
        if line and not (line.count("/") == 2 and is_image(Path(line))):
            raise ValueError(f"{path} lists {line[:60]!r}, which is not a path domain/class/image")
    return frozenset(filter(None, lines))


def convert_terraincognita(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack four locations and ten classes of the Caltech Camera Traps.

    Images are written as ``tree/location_38/bird/image``. As in DomainBed, an image with animals
    of two classes is in the folders of both.
    """
    folders = terra_folders(read_annotations(files[TERRA_ANNOTATIONS]))
    archive, tree = files[TERRA_IMAGES], unpacker.folder

    def target(name: str) -> str | None:
        image = name.rsplit("/", 1)[-1]
        return f"{folders[image][0]}/{image}" if image in folders else None

    unpacker.extract(archive, target)
    for image, (first, *others) in folders.items():
        for other in others:
            (tree / other).mkdir(parents=True, exist_ok=True)
            if (tree / first / image).is_file():
                unpacker.count(archive, bytes=(tree / first / image).stat().st_size)
                shutil.copyfile(tree / first / image, tree / other / image)


def terra_folders(annotations: Mapping[str, Any]) -> dict[str, list[str]]:
    """The folders ``location_38/bird`` of each image, by file name.

    Example:
        >>> terra_folders({
        ...     "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "car"}],
        ...     "images": [{"id": "a", "file_name": "a.jpg", "location": "38"},
        ...                {"id": "b", "file_name": "b.jpg", "location": "7"}],
        ...     "annotations": [{"image_id": "a", "category_id": 1},
        ...                     {"image_id": "a", "category_id": 2},
        ...                     {"image_id": "b", "category_id": 1}],
        ... })
        {'a.jpg': ['location_38/cat']}
    """
    try:
        names = {category["id"]: category["name"] for category in annotations["categories"]}
        classes = defaultdict[Any, set[str]](set)
        for annotation in annotations["annotations"]:
            if (name := names[annotation["category_id"]]) in TERRA_CLASSES:
                classes[annotation["image_id"]].add(name)
        return {
            image["file_name"]: [
                f"location_{image['location']}/{name}" for name in sorted(classes[image["id"]])
            ]
            for image in annotations["images"]
            if f"location_{image['location']}" in TERRA_DOMAINS and image["id"] in classes
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"the annotations have another format: {error!r}") from error


def read_annotations(path: Path) -> Any:
    """The only JSON file in a zip archive."""
    with archive_errors(path), zipfile.ZipFile(path) as packed:
        names = [name for name in packed.namelist() if name.endswith(".json")]
        if len(names) != 1:
            raise ValueError(f"{path} holds {len(names)} JSON files, not one")
        if packed.getinfo(names[0]).file_size > MAX_ANNOTATIONS:
            raise ValueError(f"{path}: {names[0]} has more than {MAX_ANNOTATIONS:,} bytes")
        text = packed.read(names[0])
    try:
        return json.loads(text)
    except ValueError as error:  # neither JSON nor UTF-8
        raise ValueError(f"{path} is damaged: {error}") from error


CONVERTERS: dict[str, Convert] = {
    "unpack": unpack,
    "parquet": unpack_parquet,
    "vlcs": convert_vlcs,
    "terraincognita": convert_terraincognita,
    "domainnet": convert_domainnet,
}
"""Converters by the names that the facts of the benchmarks use."""
