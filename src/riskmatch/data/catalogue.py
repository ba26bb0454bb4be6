"""The data sets by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from riskmatch.data.colored_digits import colored_digits
from riskmatch.data.colored_mnist import colored_mnist
from riskmatch.data.domain import DomainSet
from riskmatch.data.images.benchmark import Benchmark
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.folder import index_folder
from riskmatch.data.images.get import get_benchmark
from riskmatch.data.images.index import ImageIndex
from riskmatch.data.images.locate import find_benchmark, load_index, locate
from riskmatch.data.images.manifest import index_manifest, is_manifest
from riskmatch.data.mnist import find_mnist, get_mnist
from riskmatch.data.progress import OnProgress
from riskmatch.data.rotated_mnist import rotated_mnist
from riskmatch.validation import check_option, check_options


@dataclass(frozen=True)
class Files:
    """Files from which data sets are made."""

    name: str
    find: Callable[[Path | None], Path | None]
    """The folder on this machine that holds them."""
    get: Callable[..., Path]
    """Fetch them into a folder; see :func:`~riskmatch.data.mnist.get_mnist` for the arguments."""


@dataclass(frozen=True)
class Source:
    """A data set, before it is loaded."""

    load: Callable[..., DomainSet]
    """Its keyword arguments are its options; where it reads files, a folder to look in is first,

    and where those are images, whom to tell of progress is second.
    """
    domains: tuple[str, ...]
    """Their names, without any option."""
    classes: int
    samples: int
    """Of all domains together, without any option; one that two splits share counts twice."""
    licence: str
    files: Files | None = None
    """What it is made from; None where it comes with a package."""
    package: str | None = None
    """What must be importable."""
    extra: str | None = None
    """The extra of riskmatch that installs the package."""

    def cure(self, root: Path | None = None) -> str | None:
        """The command that makes the data set available; None where it is."""
        if self.files is not None and self.files.find(root) is None:
            return f"riskmatch data get {self.files.name}"
        if self.package is not None and find_spec(self.package) is None:
            return f"pip install 'riskmatch[{self.extra}]'"
        return None


def _images(benchmark: Benchmark) -> Source:
    def load(
        root: Path | None = None,
        on_progress: OnProgress | None = None,
        *,
        image_size: int = 224,
        augment: bool = True,
    ) -> DomainSet:
        index = load_index(benchmark, root)
        return _domains(index, on_progress, image_size=image_size, augment=augment)

    return Source(
        load,
        domains=benchmark.domains,
        classes=benchmark.classes,
        samples=benchmark.images,
        licence=benchmark.licence,
        files=Files(
            benchmark.name, partial(find_benchmark, benchmark), partial(get_benchmark, benchmark)
        ),
        package="PIL",
        extra="images",
    )


def _domains(
    index: ImageIndex,
    on_progress: OnProgress | None,
    *,
    image_size: int = 224,
    augment: bool = True,
) -> DomainSet:
    from riskmatch.data.images.dataset import image_domains

    return image_domains(index, image_size=image_size, augment=augment, on_progress=on_progress)


MNIST = Files("mnist", find_mnist, get_mnist)

DATASETS: dict[str, Source] = {
    "colored-digits": Source(
        colored_digits,
        domains=("0.9", "0.8", "0.1"),
        classes=2,
        samples=15_000,
        licence="CC BY 4.0",
        package="sklearn",
        extra="demo",
    ),
    "colored-mnist": Source(
        colored_mnist,
        domains=("0.1", "0.2", "0.9"),
        classes=2,
        samples=80_000,
        licence="CC BY-SA 3.0",
        files=MNIST,
    ),
    "rotated-mnist": Source(
        rotated_mnist,
        domains=("0", "15", "30", "45", "60", "75"),
        classes=10,
        samples=70_000,
        licence="CC BY-SA 3.0",
        files=MNIST,
    ),
    **{name: _images(benchmark) for name, benchmark in BENCHMARKS.items()},
}


def load(
    name: str,
    options: Mapping[str, Any] | None = None,
    root: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The data set ``name``.

    Args:
        name: one of ``DATASETS``; or the path of a folder ``domain/class/image``, or of a manifest.
        options: the data set's own.
        root: a folder in which to look for its files first.
        on_progress: told of every image that is read or decoded.

    Example:
        >>> load("colored-digits", {"samples": 10}).names
        ('0.9', '0.8', '0.1')
    """
    if name not in DATASETS and is_path(name):
        check_options(name, options or {}, _domains)
        return _domains(index_path(Path(name)), on_progress, **options or {})
    _check_name("data set", name, DATASETS)
    source = DATASETS[name]
    check_options(name, options or {}, source.load)
    place = () if source.files is None else (root, on_progress) if name in BENCHMARKS else (root,)
    return source.load(*place, **options or {})


def find_images(name: str, root: Path | None = None) -> tuple[Path, Benchmark | None]:
    """Where the images of a data set lie, and of which benchmark they are where the name tells.

    Args:
        name: of a benchmark; or the path of a folder ``domain/class/image``, or of a manifest.
        root: a folder in which to look first.

    Raises:
        FileNotFoundError: they are not on this machine.
        ValueError: the name is of no data set of images.
    """
    if name not in DATASETS and is_path(name):
        if not Path(name).exists():
            raise FileNotFoundError(f"There is no {name}.")
        return Path(name), None
    _check_name("data set of images", name, BENCHMARKS)
    return locate(BENCHMARKS[name], root), BENCHMARKS[name]


def known_domains(name: str) -> tuple[str, ...] | None:
    """The names of the domains, where no image need be read for them; None elsewhere."""
    if name in BENCHMARKS:
        return BENCHMARKS[name].domains
    return index_path(Path(name)).domain_names if name not in DATASETS and is_path(name) else None


def is_path(name: str) -> bool:
    """Whether a data set is told by its path: it is there, or it could not be a name.

    Example:
        >>> is_path("./pets"), is_path("pets.csv"), is_path("pacs")
        (True, True, False)
    """
    return "/" in name or "\\" in name or is_manifest(Path(name)) or Path(name).exists()


def _check_name(kind: str, name: str, names: Iterable[str]) -> None:
    try:
        check_option(kind, name, names)
    except ValueError as error:
        if name in DATASETS:
            raise
        raise ValueError(f"{error} Nor is there a folder or a file '{name}'.") from None


def index_path(path: Path) -> ImageIndex:
    """The images of a folder ``domain/class/image``, or of a manifest."""
    return index_manifest(path) if path.is_file() or is_manifest(path) else index_folder(path)
