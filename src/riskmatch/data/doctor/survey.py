"""A walk through a tree of images that stops at nothing, and names what lies in the wrong place."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from riskmatch.data.doctor.examination import Finding, Severity
from riskmatch.data.doctor.signature import ENDINGS, HEAD, content_of
from riskmatch.data.images.folder import LAYOUT, index_folder, is_image, is_junk
from riskmatch.data.images.index import Entry, ImageIndex
from riskmatch.data.images.manifest import (
    RELATIVE,
    index_entries,
    is_manifest,
    read_manifest,
)


def survey(source: Path) -> tuple[ImageIndex, list[Finding]]:
    """The images of a folder or a manifest, and what a loader would pass over or refuse.

    Raises:
        FileNotFoundError: there is no such folder or manifest.
        ValueError: the tree has another shape, or holds nothing.
    """
    if source.is_file() and is_manifest(source):
        index, findings = _survey_manifest(source)
    else:
        index, findings = _survey_folder(source)
    if not len(index):
        message, cure = "has no image that a loader would find", "Follow the other cures."
        findings.append(Finding("no-images", "fault", message, cure))
    return index, findings


def _survey_manifest(source: Path) -> tuple[ImageIndex, list[Finding]]:
    listed = read_manifest(source)
    here = {entry for entry in listed if os.path.isfile(source.parent / entry.path)}
    findings = [
        Finding(
            "missing-file",
            "fault",
            f"is listed in {source.name}, {where}, and is no file",
            f"Get the file, or take it out of {source.name}. {RELATIVE}",
            path=entry.path,
            domain=entry.domain,
        )
        for entry, where in listed.items()
        if entry not in here
    ]
    return index_entries(source, here), findings


def _survey_folder(source: Path) -> tuple[ImageIndex, list[Finding]]:
    if not source.is_dir():
        return index_folder(source), []  # which raises
    tree = _walk(source)
    entries = list[Entry]()
    findings = [_unreadable(source, path, why) for path, why in tree.refused.items()]
    findings += map(_empty, tree.empty())
    for path in tree.files:
        parts = path.split("/")
        if not is_image(source / path):
            findings.append(_stray(source, path))
        elif len(parts) == 3:
            entries.append(Entry(path, parts[1], parts[0]))
        else:
            findings.append(_misplaced(path))
    if not entries and (not findings or any(found.kind == "misplaced" for found in findings)):
        index_folder(source)  # which raises, and says which level is wrong
    return ImageIndex.of(source.resolve().name, source, entries), findings


class _Tree(NamedTuple):
    """What lies below a root but junk, relative to it, with forward slashes."""

    files: list[str]
    """In order."""
    folders: list[str]
    refused: dict[str, str]
    """Folders that may not be read, and why."""

    def empty(self) -> list[str]:
        """Domains, classes, and folders in place of an image, below which there is no file."""
        holding = {
            parent.as_posix()
            for path in (*self.files, *self.refused)
            for parent in PurePosixPath(path).parents
        }
        return [path for path in self.folders if path.count("/") < 3 and path not in holding]


def _walk(root: Path) -> _Tree:
    tree = _Tree([], [], {})

    def refuse(error: OSError) -> None:
        tree.refused[Path(error.filename).relative_to(root).as_posix()] = error.strerror or "?"

    for folder, folders, files in os.walk(root, onerror=refuse, followlinks=True):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) >= 2:  # a link deeper down may lead round in a circle
            folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        folders[:] = sorted(name for name in folders if not is_junk(name))
        if inside.parts:
            tree.folders.append(inside.as_posix())
        tree.files.extend((inside / name).as_posix() for name in sorted(files) if not is_junk(name))
    return tree


def _unreadable(root: Path, path: str, why: str) -> Finding:
    return Finding(
        "unreadable",
        "fault",
        f"is a folder that may not be read ({why})",
        f"Give yourself the right to: chmod u+rx {root / path}",
        path=path,
        domain=path.split("/")[0],
    )


def _empty(path: str) -> Finding:
    domain, *inside = path.split("/")
    kept = "Put its images into it, or delete it."
    severity: Severity
    severity, message, cure = (
        ("fault", "has no file in it: the domain is missing", kept),
        ("warning", "has no file in it: the domain lacks the class", kept),
        ("fault", "is an empty folder", "Delete it: loaders expect images there."),
    )[len(inside)]
    return Finding("empty-folder", severity, message, cure, path=path, domain=domain)


def _misplaced(path: str) -> Finding:
    parts = path.split("/")
    home = "/".join((*parts[:-1], *("DOMAIN", "CLASS")[len(parts) - 1 :])[:2])
    return Finding(
        "misplaced",
        "fault",
        f"is not where a loader looks: {LAYOUT}",
        f"Move it into {home}/, or out of the data set.",
        path=path,
        domain=parts[0] if len(parts) > 1 else None,
    )


def _stray(root: Path, path: str) -> Finding:
    domain = path.split("/")[0] if "/" in path else None
    try:
        with open(root / path, "rb") as file:
            holds = content_of(file.read(HEAD))
    except OSError as error:
        holds = f"what cannot be read ({error.strerror})"
    if holds in ENDINGS:
        return Finding(
            "wrong-extension",
            "fault",
            f"is a {holds} image that loaders pass over, for its name is that of no image",
            f"Rename it to {Path(path).with_suffix(ENDINGS[holds][0]).as_posix()}.",
            path=path,
            domain=domain,
        )
    return Finding(
        "stray",
        "warning" if domain else "note",
        f"is no image; it holds {holds}",
        "Loaders pass over it. Delete it unless you want it there.",
        path=path,
        domain=domain,
    )
