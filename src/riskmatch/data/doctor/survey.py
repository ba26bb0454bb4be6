"""A walk through a tree of images that stops at nothing, and names what lies in the wrong place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from riskmatch.data.doctor.examination import Finding
from riskmatch.data.doctor.signature import ENDINGS, HEAD, content_of
from riskmatch.data.images.folder import LAYOUT, index_folder, is_image, is_junk
from riskmatch.data.images.index import Entry, ImageIndex
from riskmatch.data.images.manifest import index_manifest, is_manifest


def survey(source: Path) -> tuple[ImageIndex, list[Finding]]:
    """The images of a folder or a manifest, and what a loader would pass over or refuse.

    Raises:
        FileNotFoundError: there is no such folder or manifest.
        ValueError: no image lies where one should.
    """
    if source.is_file() and is_manifest(source):
        return index_manifest(source), []
    entries, findings = list[Entry](), list[Finding]()
    for path in _files(source):
        parts = path.split("/")
        if not is_image(source / path):
            findings.append(_stray(source, path))
        elif len(parts) == 3:
            entries.append(Entry(path, parts[1], parts[0]))
        else:
            findings.append(_misplaced(path))
    if not entries:
        return index_folder(source), []  # which raises, and says which level is wrong
    return ImageIndex.of(source.resolve().name, source, entries), findings


def _files(root: Path) -> Iterator[str]:
    """Every file below ``root`` but junk, relative to it, with forward slashes, in order."""
    for folder, folders, files in os.walk(root, followlinks=True):
        inside = Path(folder).relative_to(root)
        if len(inside.parts) >= 2:  # a link deeper down may lead round in a circle
            folders[:] = [name for name in folders if not os.path.islink(f"{folder}/{name}")]
        folders[:] = sorted(name for name in folders if not is_junk(name))
        yield from ((inside / name).as_posix() for name in sorted(files) if not is_junk(name))


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
