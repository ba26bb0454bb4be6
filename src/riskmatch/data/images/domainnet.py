"""DomainNet, from its six archives, without the duplicates that are published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from riskmatch.data.images.archives import extract
from riskmatch.data.images.folder import is_image
from riskmatch.data.progress import OnProgress

DUPLICATES = "domain_net_duplicates.txt"
"""One path ``domain/class/image`` a line, as DomainBed publishes them."""


def prepare(files: Mapping[str, Path], tree: Path, on_progress: OnProgress | None = None) -> None:
    """Unpack the archives into ``tree/domain/class/image``, all but the duplicates.

    The archives hold the images of the training and of the test lists together.
    """
    duplicates = read_duplicates(files[DUPLICATES])
    for name, path in files.items():
        if name != DUPLICATES:
            extract(path, tree, lambda image: None if image in duplicates else image, on_progress)


def read_duplicates(path: Path) -> frozenset[str]:
    """The images that are left out."""
    lines = [line.strip() for line in path.read_text("utf-8", errors="replace").splitlines()]
    listed = frozenset(line for line in lines if line)
    if odd := next((line for line in lines if line and not _is_image_path(line)), None):
        raise ValueError(f"{path} lists {odd[:60]!r}, which is no domain/class/image")
    return listed


def _is_image_path(line: str) -> bool:
    return line.count("/") == 2 and is_image(Path(line))
