"""List the images of a data set with their labels and domains."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import check_regular
from riskmatch.validation import check_option

FORMATS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
"""Image formats and their file extensions."""
EXTENSIONS = tuple(sorted(extension for known in FORMATS.values() for extension in known))
"""File extensions of images, in lower case."""
JUNK = ("__macosx", "thumbs.db", "desktop.ini")
"""Files of file managers, in lower case; names that begin with a dot are ignored too."""
LAYOUT = "the layout must be domain/class/image"
STEM = "stem"
"""Group of images by the name of the file without its extension."""
_LISTED = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""File extensions that torchvision's ``ImageFolder`` lists."""


class Entry(NamedTuple):
    """One image with its label and the name of its domain."""

    path: str
    """Path relative to the root of the data set, with forward slashes."""
    label: str | float | tuple[float, ...]
    """Name of the class, number, or tags, 0, 1 or NaN."""
    domain: str
    group: str = ""


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """The images of a data set, sorted by domain, class and path.

    All domains share one map from class names to labels, so a class that is missing in a domain
    does not shift the labels.

    Example:
        >>> entries = [Entry("b/dog/1.png", "dog", "b"), Entry("a/cat/1.png", "cat", "a")]
        >>> index = ImageIndex.of("pets", Path("data"), entries)
        >>> index.class_names, index.labels, index.domain_names, index.domains
        (('cat', 'dog'), (0, 1), ('a', 'b'), (0, 1))
    """

    name: str
    root: Path
    class_names: tuple[str, ...]
    """Names of the classes, or of the tags; empty where the labels are numbers."""
    domain_names: tuple[str, ...]
    paths: tuple[str, ...]
    """(n,) paths relative to the root, with forward slashes."""
    labels: tuple[Any, ...]
    """(n,) indices into ``class_names``, numbers (floats), or a tuple (k,) of tags each."""
    domains: tuple[int, ...]
    """(n,) indices into ``domain_names``."""
    groups: tuple[str, ...] = ()
    """(n,) names of the groups; empty without groups."""
    ranks: tuple[int, ...] = ()
    """(n,) place of each image among those of its domain, see :meth:`ranked`; empty if unknown."""

    @classmethod
    def of(
        cls,
        name: str,
        root: Path,
        entries: Iterable[Entry],
        class_names: Sequence[str] | None = None,
        domain_names: Sequence[str] | None = None,
    ) -> ImageIndex:
        """The index of ``entries``; class and domain names are sorted unless they are given.

        Class and domain names are normalised (:func:`normalised_name`); paths are kept as they are.
        """
        normalised = [
            Entry(
                path,
                normalised_name(label) if isinstance(label, str) else label,
                normalised_name(domain),
                group,
            )
            for path, label, domain, group in entries
        ]
        named = {entry.label for entry in normalised if isinstance(entry.label, str)}
        classes = tuple(class_names or sorted(named))
        domains = tuple(domain_names or sorted({entry.domain for entry in normalised}))
        label_of: dict[Any, int] = {label: number for number, label in enumerate(classes)}
        domain_of = {domain: number for number, domain in enumerate(domains)}
        for entry in normalised:
            if isinstance(entry.label, str) and entry.label not in label_of:
                check_option(f"class of '{name}'", entry.label, classes)
            if entry.domain not in domain_of:
                check_option(f"domain of '{name}'", entry.domain, domains)
        normalised.sort(key=lambda e: (domain_of[e.domain], label_of.get(e.label, 0), e.path))
        return cls(
            name,
            root,
            classes,
            domains,
            paths=tuple(e.path for e in normalised),
            labels=tuple(label_of.get(e.label, e.label) for e in normalised),
            domains=tuple(domain_of[e.domain] for e in normalised),
            groups=tuple(e.group for e in normalised if e.group),
        )

    def grouped(self, group: str | None) -> ImageIndex:
        """The index of images in folders with the groups of the option ``group``.

        Raises:
            ValueError: ``group`` is neither ``stem`` nor None.
        """
        if group is None:
            return self
        if group != STEM:
            raise ValueError(
                f"group={group!r}: images in folders are grouped by {STEM}, the name of the file; "
                f"for other groups list them in a manifest with a column {group!r}."
            )
        return replace(self, groups=tuple(PurePosixPath(path).stem for path in self.paths))

    def ranked(self) -> ImageIndex:
        """The index of folders with places in the order of torchvision's ``ImageFolder``.

        It lists classes by the name of their folder, and their images by file name. None have
        places where it does not list one of the images.

        Example:
            >>> entries = [Entry(f"a/{name}.png", name[:3], "a") for name in ("dog/1", "cat/2")]
            >>> ImageIndex.of("pets", Path("data"), entries, ("dog", "cat")).ranked().ranks
            (1, 0)
        """
        if not all(path.lower().endswith(_LISTED) for path in self.paths):
            return self
        order = sorted(range(len(self)), key=lambda row: self.paths[row].split("/"))
        listed, ranks = Counter[int](), [0] * len(self)
        for row in order:
            ranks[row] = listed[self.domains[row]]
            listed[self.domains[row]] += 1
        return replace(self, ranks=tuple(ranks))

    def without(self, paths: Collection[str]) -> ImageIndex:
        """The index without the images of these paths; domains and classes stay."""
        kept = [row for row, path in enumerate(self.paths) if path not in paths]
        names = [name for name in ("paths", "labels", "domains", "groups") if getattr(self, name)]
        rows: Any = {name: tuple(getattr(self, name)[row] for row in kept) for name in names}
        return replace(self, **rows, ranks=())

    def __len__(self) -> int:
        return len(self.paths)

    def file(self, row: int) -> Path:
        """Path of the image of a row."""
        return self.root / self.paths[row]

    @property
    def classes(self) -> int:
        """Number of classes; 0 where the labels are numbers or tags."""
        has_classes = all(isinstance(label, int) for label in self.labels[:1])
        return len(self.class_names) if has_classes else 0

    def names(self, row: int) -> tuple[str, ...]:
        """Name of the class of a row, or of its tags; empty where the label is a number."""
        label = self.labels[row]
        if isinstance(label, tuple):
            return tuple(
                name for name, tag in zip(self.class_names, label, strict=True) if tag == 1
            )
        return (self.class_names[label],) if self.class_names else ()

    def labels_by_domain(self) -> dict[str, NDArray[Any]]:
        """Labels of the images of each domain, (n,) or (n, k)."""
        labels, domains = np.array(self.labels), np.array(self.domains)
        return {name: labels[domains == k] for k, name in enumerate(self.domain_names)}

    def counts(self) -> dict[str, dict[str, int]]:
        """Number of images by domain and class or tag, zeros included."""
        table = {domain: dict.fromkeys(self.class_names, 0) for domain in self.domain_names}
        for row, domain in enumerate(self.domains):
            for name in self.names(row):
                table[self.domain_names[domain]][name] += 1
        return table

    def domain_sizes(self) -> dict[str, int]:
        """Number of images by domain."""
        return {name: self.domains.count(k) for k, name in enumerate(self.domain_names)}


def index_folder(root: Path) -> ImageIndex:
    """The images of a tree ``domain/class/image``, named after the folder ``root``.

    Other files, hidden files and the files of file managers are ignored; links are followed.

    Raises:
        FileNotFoundError: there is no such folder.
        PermissionError: a folder cannot be read.
        ValueError: the tree has another layout; the message names the wrong level.
    """
    entries = list(scan(root))
    if not entries:
        extensions = " ".join(extension[1:] for extension in EXTENSIONS)
        raise ValueError(f"{root} has no images ({extensions}); {LAYOUT}.")
    return ImageIndex.of(root.resolve().name, root, entries).ranked()


def index_sites(root: Path) -> ImageIndex:
    """The images of a tree ``domain/class/image``, or of a single site ``class/image``."""
    folders = [child for child in _children(root) if child.is_dir()] if root.is_dir() else []
    images = [(folder, child) for folder in folders for child in _children(folder)]
    if any(child.is_dir() for _, child in images) or not any(is_image(p) for _, p in images):
        return index_folder(root)
    name = root.resolve().name
    return ImageIndex.of(
        name,
        root,
        (Entry(f"{f.name}/{p.name}", f.name, name) for f, p in images if is_image(p)),
    )


def scan(root: Path) -> Iterator[Entry]:
    """The images of a tree ``domain/class/image``, sorted by name."""
    if not root.exists():
        raise FileNotFoundError(f"There is no folder {root}.")
    if not root.is_dir():
        check_regular(root)
        raise NotADirectoryError(f"{root} is a file, not a folder of domains; {LAYOUT}.")
    for domain in _children(root):
        if not domain.is_dir():
            _refuse_image(domain, "domain")
            continue
        inside = _children(domain)
        if any(map(is_image, inside)) and not any(child.is_dir() for child in inside):
            raise ValueError(
                f"{domain} holds images instead of class folders: the level of domains or of "
                f"classes is missing; {LAYOUT}."
            )
        for label in inside:
            if not label.is_dir():
                _refuse_image(label, "class")
                continue
            for image in _children(label):
                if image.is_dir():
                    raise ValueError(
                        f"{image} is a folder where an image is expected; {LAYOUT}. If the tree is "
                        f"one level too deep, use the folder {domain}."
                    )
                if is_image(image):
                    path = f"{domain.name}/{label.name}/{image.name}"
                    yield Entry(path, label.name, domain.name)


def is_image(path: Path) -> bool:
    """Whether a file name is that of an image.

    Example:
        >>> is_image(Path("a/1.JPG")), is_image(Path("a/Thumbs.db")), is_image(Path("a/._1.jpg"))
        (True, False, False)
    """
    return path.suffix.lower() in EXTENSIONS and not is_junk(path.name)


def is_junk(name: str) -> bool:
    """Whether a file or folder is hidden or belongs to a file manager."""
    return name.startswith(".") or name.lower() in JUNK


def normalised_name(name: str) -> str:
    r"""A class or domain name in Unicode form NFC, with undecodable bytes escaped.

    File systems differ in how they store accents; names that are not UTF-8 become ``\udce9`` and
    the like, and control characters ``\x1b`` and the like, so that every name can be written to a
    file and to a terminal.

    Example:
        >>> normalised_name("cafe\u0301") == normalised_name("caf\u00e9")
        True
    """
    text = unicodedata.normalize("NFC", name).encode("utf-8", "backslashreplace").decode()
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m[0]):02x}", text)


def _children(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except PermissionError as error:
        raise PermissionError(
            f"{folder} cannot be read: no permission. Allow it: chmod u+rx {folder}"
        ) from error
    return [folder / name for name in sorted(names) if not is_junk(name)]


def _refuse_image(path: Path, level: str) -> None:
    if path.is_symlink() and not path.exists():
        raise ValueError(
            f"{path} is a link to {os.readlink(path)}, which does not exist. Repair or remove it."
        )
    if is_image(path):
        raise ValueError(f"{path} is an image where a {level} folder is expected; {LAYOUT}.")
