"""Walk a whole tree of images and report files in the wrong place."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from riskmatch.data.doctor.files import FORMATS, HEADER, detect_format
from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.images.index import (
    LAYOUT,
    Entry,
    ImageIndex,
    index_folder,
    is_image,
    is_junk,
)
from riskmatch.data.images.manifest import (
    RELATIVE,
    index_entries,
    is_manifest,
    read_manifest,
)


def survey(source: Path) -> tuple[ImageIndex, list[Finding]]:
    """The images of a folder or a manifest, and findings on files that a loader skips or refuses.

    Raises:
        FileNotFoundError: the folder or manifest does not exist.
        ValueError: the tree has another layout, or has no files.
    """
    if source.is_file() and is_manifest(source):
        index, findings = _survey_manifest(source)
    else:
        index, findings = _survey_folder(source)
    if not len(index):
        message, cure = "has no image that a loader would find", "Apply the other cures."
        findings.append(Finding("no-images", "fault", message, cure))
    return index, findings


def _survey_manifest(source: Path) -> tuple[ImageIndex, list[Finding]]:
    listed = read_manifest(source)
    existing = {entry for entry in listed if os.path.isfile(source.parent / entry.path)}
    findings = [
        Finding(
            "missing-file",
            "fault",
            f"is listed in {source.name}, {location}, but does not exist",
            f"Restore the file, or remove it from {source.name}. {RELATIVE}",
            path=entry.path,
            domain=entry.domain,
        )
        for entry, location in listed.items()
        if entry not in existing
    ]
    return index_entries(source, existing), findings


def _survey_folder(source: Path) -> tuple[ImageIndex, list[Finding]]:
    if not source.is_dir():
        return index_folder(source), []  # raises
    tree = _walk(source)
    entries = list[Entry]()
    findings = [_unreadable(source, path, reason) for path, reason in tree.unreadable.items()]
    findings += map(_empty_folder, tree.empty_folders())
    for path in tree.files:
        parts = path.split("/")
        if not is_image(source / path):
            findings.append(_stray(source, path))
        elif len(parts) == 3:
            entries.append(Entry(path, parts[1], parts[0]))
        else:
            findings.append(_misplaced(path))
    if not entries and (not findings or any(finding.kind == "misplaced" for finding in findings)):
        index_folder(source)  # raises, with the wrong level in the message
    return ImageIndex.of(source.resolve().name, source, entries), findings


class _Tree(NamedTuple):
    """Paths below a root, without junk, relative to it, with forward slashes."""

    files: list[str]
    """Files, sorted by folder and name."""
    folders: list[str]
    unreadable: dict[str, str]
    """Folders that cannot be read, with the reason."""

    def empty_folders(self) -> list[str]:
        """Domains, classes, and folders in place of an image, without any file below."""
        occupied = {
            parent.as_posix()
            for path in (*self.files, *self.unreadable)
            for parent in PurePosixPath(path).parents
        }
        return [path for path in self.folders if path.count("/") < 3 and path not in occupied]


def _walk(root: Path) -> _Tree:
    tree = _Tree([], [], {})

    def add_unreadable(error: OSError) -> None:
        tree.unreadable[Path(error.filename).relative_to(root).as_posix()] = error.strerror or "?"

    for folder, folders, files in os.walk(root, onerror=add_unreadable, followlinks=True):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) >= 2:  # deeper links may form a cycle
            folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        folders[:] = sorted(name for name in folders if not is_junk(name))
        if inside.parts:
            tree.folders.append(inside.as_posix())
        tree.files.extend((inside / name).as_posix() for name in sorted(files) if not is_junk(name))
    return tree


def _unreadable(root: Path, path: str, reason: str) -> Finding:
    return Finding(
        "unreadable",
        "fault",
        f"is a folder that cannot be read ({reason})",
        f"Allow it: chmod u+rx {root / path}",
        path=path,
        domain=path.split("/")[0],
    )


def _empty_folder(path: str) -> Finding:
    domain, *inside = path.split("/")
    fill = "Add its images, or delete it."
    severity: Severity
    severity, message, cure = (
        ("fault", "has no files: the domain is missing", fill),
        ("warning", "has no files: the domain lacks the class", fill),
        ("fault", "is an empty folder", "Delete it: loaders expect images there."),
    )[len(inside)]
    return Finding("empty-folder", severity, message, cure, path=path, domain=domain)


def _misplaced(path: str) -> Finding:
    parts = path.split("/")
    folder = "/".join((*parts[:-1], *("DOMAIN", "CLASS")[len(parts) - 1 :])[:2])
    return Finding(
        "misplaced",
        "fault",
        f"is in the wrong place: {LAYOUT}",
        f"Move it to {folder}/, or out of the data set.",
        path=path,
        domain=parts[0] if len(parts) > 1 else None,
    )


def _stray(root: Path, path: str) -> Finding:
    domain = path.split("/")[0] if "/" in path else None
    try:
        with open(root / path, "rb") as file:
            format_ = detect_format(file.read(HEADER))
    except OSError as error:
        format_ = f"unreadable ({error.strerror})"
    if format_ in FORMATS:
        return Finding(
            "wrong-extension",
            "fault",
            f"is a {format_} image that loaders skip because of its extension",
            f"Rename it to {Path(path).with_suffix(FORMATS[format_][0]).as_posix()}.",
            path=path,
            domain=domain,
        )
    return Finding(
        "stray",
        "warning" if domain else "note",
        f"is not an image but {format_}",
        "Loaders skip it. Delete it if it is not needed.",
        path=path,
        domain=domain,
    )
