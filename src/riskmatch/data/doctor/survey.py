"""Walk a whole tree of images and report files in the wrong place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from riskmatch.data.doctor.files import HEADER, detect_format
from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.doctor.groups import check_names
from riskmatch.data.doctor.tables import check_unlabelled
from riskmatch.data.images.index import (
    FORMATS,
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
    other_columns,
    read_manifest,
)
from riskmatch.files import check_regular

MAX_MISSING = 100
"""Missing files of a manifest that are listed one by one."""


def survey(
    source: Path, label: str | Sequence[str] | None = None, group: str | None = None
) -> tuple[ImageIndex, list[Finding]]:
    """The images of a folder or a manifest, and findings on files that a loader skips or refuses.

    Args:
        source: the folder or manifest.
        label: columns of the label in a manifest.
        group: column of the group, or ``stem`` for a folder.

    Raises:
        FileNotFoundError: the folder or manifest does not exist.
        ValueError: the tree has another layout, or has no files.
    """
    if source.is_file() and is_manifest(source):
        index, findings = _survey_manifest(source, label, group)
        columns = other_columns(source)
    else:
        index, findings = _survey_folder(source)
        index, columns = index.grouped(group), None
    if not len(index):
        message, cure = "has no image that a loader would find", "Apply the other cures."
        findings.append(Finding("no-images", "fault", message, cure))
    else:
        findings += check_names(index, columns)
    return index, findings


def _survey_manifest(
    source: Path, label: str | Sequence[str] | None, group: str | None
) -> tuple[ImageIndex, list[Finding]]:
    listed, tags, unlabelled = read_manifest(source, label, group, drop_missing_labels=True)
    existing = {entry for entry in listed if os.path.isfile(source.parent / entry.path)}
    cure = f"Restore the file, or remove it from {source.name}. {RELATIVE}"
    findings = [*check_unlabelled(unlabelled)]
    missing = {entry: location for entry, location in listed.items() if entry not in existing}
    for number, (entry, location) in enumerate(missing.items()):
        if number == MAX_MISSING:
            message = f"lacks {len(missing) - number:,} more files that {source.name} lists"
            findings.append(Finding("missing-file", "fault", message, cure))
            break
        message = f"is listed in {source.name}, {location}, but does not exist"
        findings.append(Finding("missing-file", "fault", message, cure, entry.path, entry.domain))
    return index_entries(source, existing, tags), findings


def _survey_folder(source: Path) -> tuple[ImageIndex, list[Finding]]:
    if not source.is_dir():
        return index_folder(source), []  # raises
    files, folders, unreadable = _walk(source)
    entries, findings = list[Entry](), list[Finding]()
    for path, reason in unreadable.items():
        message = f"is a folder that cannot be read ({reason})"
        cure = f"Allow it: chmod u+rx {source / path}"
        findings.append(Finding("unreadable", "fault", message, cure, path, path.split("/")[0]))
    occupied = {
        parent.as_posix()
        for path in (*files, *unreadable)
        for parent in PurePosixPath(path).parents
    }
    findings += (
        _empty_folder(path) for path in folders if path.count("/") < 3 and path not in occupied
    )
    for path in files:
        parts = path.split("/")
        if not is_image(source / path):
            findings.append(_stray(source, path))
        elif len(parts) == 3:
            entries.append(Entry(path, parts[1], parts[0]))
        else:
            target = "/".join((*parts[:-1], *("DOMAIN", "CLASS")[len(parts) - 1 :])[:2])
            message = f"is in the wrong place: {LAYOUT}"
            cure = f"Move it to {target}/, or out of the data set."
            findings.append(Finding("misplaced", "fault", message, cure, path, _domain(path)))
    if not entries and (not findings or any(finding.kind == "misplaced" for finding in findings)):
        index_folder(source)  # raises, with the wrong level in the message
    return ImageIndex.of(source.resolve().name, source, entries), findings


def _walk(root: Path) -> tuple[list[str], list[str], dict[str, str]]:
    """Files, folders, and folders that cannot be read with the reason, without junk.

    Paths are relative to the root, with forward slashes, sorted by folder and name.
    """
    all_files, all_folders, unreadable = list[str](), list[str](), dict[str, str]()

    def add_unreadable(error: OSError) -> None:
        unreadable[Path(error.filename).relative_to(root).as_posix()] = error.strerror or "?"

    for folder, folders, files in os.walk(root, onerror=add_unreadable, followlinks=True):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) >= 2:  # deeper links may form a cycle
            folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        folders[:] = sorted(name for name in folders if not is_junk(name))
        if inside.parts:
            all_folders.append(inside.as_posix())
        all_files.extend((inside / name).as_posix() for name in sorted(files) if not is_junk(name))
    return all_files, all_folders, unreadable


def _empty_folder(path: str) -> Finding:
    domain, *inside = path.split("/")
    fill = "Add its images, or delete it."
    severity: Severity
    severity, message, cure = (
        ("fault", "has no files: the domain is missing", fill),
        ("warning", "has no files: the domain lacks the class", fill),
        ("fault", "is an empty folder", "Delete it: loaders expect images there."),
    )[len(inside)]
    return Finding("empty-folder", severity, message, cure, path, domain)


def _stray(root: Path, path: str) -> Finding:
    domain = _domain(path)
    try:
        check_regular(root / path)
        with open(root / path, "rb") as file:
            format_ = detect_format(file.read(HEADER))
    except OSError as error:
        format_ = f"unreadable ({error.strerror})"
    if format_ in FORMATS:
        message = f"is a {format_} image that loaders skip because of its extension"
        cure = f"Rename it to {Path(path).with_suffix(FORMATS[format_][0]).as_posix()}."
        return Finding("wrong-extension", "fault", message, cure, path, domain)
    cure = "Loaders skip it. Delete it if it is not needed."
    message = f"is not an image but {format_}"
    return Finding("stray", "warning" if domain else "note", message, cure, path, domain)


def _domain(path: str) -> str | None:
    """The domain of a file; None beside the domains."""
    return path.split("/")[0] if "/" in path else None
