"""Images in folders: ``domain/class/image``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from riskmatch.data.images.index import Entry, ImageIndex

EXTENSIONS = (
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".pbm",
    ".pgm",
    ".png",
    ".pnm",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
)
"""How the name of an image ends, in any case."""
JUNK = ("__macosx", "thumbs.db", "desktop.ini")
"""What file managers leave behind; so is every name that begins with a dot."""
LAYOUT = "images lie in domain/class/image"


def index_folder(root: Path, name: str | None = None) -> ImageIndex:
    """The images of a tree ``domain/class/image``.

    Files that are not images by their name, hidden files and what file managers leave behind are
    passed over; links are followed.

    Args:
        root: the folder of the domains.
        name: of the data set; that of the folder, where nothing is said.

    Raises:
        FileNotFoundError: there is no such folder.
        PermissionError: a folder may not be read.
        ValueError: the tree has another shape; the message says which level is wrong.
    """
    entries = list(scan(root))
    if not entries:
        kinds = " ".join(extension[1:] for extension in EXTENSIONS)
        raise ValueError(f"{root} holds no images ({kinds}); {LAYOUT}.")
    return ImageIndex.of(name or root.resolve().name, root, entries)


def scan(root: Path) -> Iterator[Entry]:
    """The images of a tree ``domain/class/image``, in the order of their names."""
    if not root.exists():
        raise FileNotFoundError(f"There is no folder {root}.")
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is a file, not a folder of domains; {LAYOUT}.")
    for domain in _children(root):
        if not domain.is_dir():
            _refuse_image(domain, "domain")
            continue
        inside = _children(domain)
        if any(map(is_image, inside)) and not any(child.is_dir() for child in inside):
            raise ValueError(
                f"{domain} holds images where folders of classes are expected: the tree is "
                f"class/image and the level of domains is missing, or the level of classes is; "
                f"{LAYOUT}."
            )
        for label in inside:
            if not label.is_dir():
                _refuse_image(label, "class")
                continue
            for image in _children(label):
                if image.is_dir():
                    raise ValueError(
                        f"{image} is a folder where images are expected; {LAYOUT}. Is the tree one "
                        f"level too deep? Then name the folder {domain}."
                    )
                if is_image(image):
                    path = f"{domain.name}/{label.name}/{image.name}"
                    yield Entry(path, label.name, domain.name)


def is_image(path: Path) -> bool:
    """Whether the name is that of an image.

    Example:
        >>> is_image(Path("a/1.JPG")), is_image(Path("a/Thumbs.db")), is_image(Path("a/._1.jpg"))
        (True, False, False)
    """
    return path.suffix.lower() in EXTENSIONS and not is_junk(path.name)


def is_junk(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or left behind by a file manager."""
    return name.startswith(".") or name.lower() in JUNK


def _children(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except PermissionError as error:
        raise PermissionError(
            f"{folder} may not be read. Give yourself the right to: chmod u+rx {folder}"
        ) from error
    return [folder / name for name in sorted(names) if not is_junk(name)]


def _refuse_image(path: Path, level: str) -> None:
    if is_image(path):
        raise ValueError(f"{path} is an image where the folder of a {level} is expected; {LAYOUT}.")
