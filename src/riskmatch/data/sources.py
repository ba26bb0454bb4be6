"""Sources of data sets: how each is loaded and what is known about it before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.data.colored_digits import AGREEMENT, colored_digits
from riskmatch.data.colored_mnist import colored_mnist
from riskmatch.data.domain import DomainSet
from riskmatch.data.images.benchmark import BENCHMARKS, Benchmark, find_benchmark, load_index
from riskmatch.data.images.cache import image_domains, readable
from riskmatch.data.images.get import get_benchmark
from riskmatch.data.images.index import ImageIndex
from riskmatch.data.mnist import find_mnist, get_mnist
from riskmatch.data.rotated_mnist import ANGLES, rotated_mnist


@dataclass(frozen=True)
class Downloads:
    """Files that ``riskmatch data get`` fetches and data sets are made from."""

    name: str
    find: Callable[[Path | None], Path | None]
    """Return the folder on this machine that holds the files, given a folder to search first."""
    get: Callable[..., Path]
    """Fetch the files; called like :func:`~riskmatch.data.mnist.get_mnist`."""


@dataclass(frozen=True)
class DataSource:
    """A data set that can be loaded, and what is known about it before.

    A data set of your own can be a plain function; a ``DataSource`` adds the facts that
    ``riskmatch data list`` shows.

    Example:
        >>> import torch
        >>> from riskmatch.data import Domain
        >>> def waves(*, samples: int = 10) -> DomainSet:
        ...     x, y = torch.zeros(samples, 3), torch.zeros(samples, dtype=torch.long)
        ...     return DomainSet("waves", (Domain("slow", x, y), Domain("fast", x, y)), classes=2)
        >>> DataSource(waves, domains=("slow", "fast"), classes=2).load(samples=4).names
        ('slow', 'fast')
    """

    load: Callable[..., DomainSet]
    """Return the data. Keyword-only parameters are the options of the data set; a first positional
    parameter ``data_dir`` receives the folder to search for files, a second one ``on_progress``
    a function to call with progress."""
    domains: tuple[str, ...] = ()
    """Names of the domains with default options; empty where unknown before loading."""
    classes: int | None = None
    samples: int | None = None
    """Samples of all domains with default options; one that two domains share counts twice."""
    licence: str | None = None
    files: Downloads | None = None
    """Files that it is made from; None where nothing has to be fetched."""
    package: str | None = None
    """Module that must be importable."""
    extra: str | None = None
    """Extra of riskmatch that installs the module."""

    def cure(self, data_dir: Path | None = None) -> str | None:
        """The command that makes the data set available; None where it is available."""
        if self.files is not None and self.files.find(data_dir) is None:
            return f"riskmatch data get {self.files.name}"
        if self.package is not None and find_spec(self.package) is None:
            return f"pip install 'riskmatch[{self.extra}]'"
        return None


def image_source(index: Callable[..., ImageIndex], **facts: Any) -> DataSource:
    """A source of image domains.

    Args:
        index: returns the images, given a folder to search first, the option ``group`` and, for
            files of the user's own, the columns of the label and ``drop_missing_labels``.
        facts: other fields of the source.
    """

    def load(
        data_dir: Path | None = None,
        on_progress: OnProgress | None = None,
        *,
        image_size: int = 224,
        augment: bool = True,
        label: str | list[str] | None = None,
        group: str | None = None,
        drop_missing_labels: bool = False,
        skip_unreadable: bool = False,
    ) -> DomainSet:
        """Image domains.

        Args:
            data_dir: folder to search for the files first.
            on_progress: called for every image that is read or decoded.
            image_size: side of the square images that training sees, in pixels.
            augment: whether training sees random crops, flips and colours, as in DomainBed.
            label: column of the label in a list of images, or several, of which each is a tag.
            group: images that stay on one side of every split: those with the same value in this
                column of a manifest, or in folders, with stem, those with the same file name.
            drop_missing_labels: whether rows of a list of images without a label are left out, with
                a warning that counts them.
            skip_unreadable: whether images that cannot be read are left out, with a warning that
                lists them.
        """
        given = {"label": label, "drop_missing_labels": drop_missing_labels}
        images = index(data_dir, group=group, **{k: v for k, v in given.items() if v})
        if skip_unreadable:
            images = readable(images, on_progress=on_progress)
        return image_domains(images, image_size, augment, on_progress=on_progress)

    return DataSource(load, **facts)


def _benchmark_source(benchmark: Benchmark) -> DataSource:
    return image_source(
        partial(load_index, benchmark),
        domains=benchmark.domains,
        classes=benchmark.classes,
        samples=benchmark.images,
        licence=benchmark.licence,
        files=Downloads(
            benchmark.name, partial(find_benchmark, benchmark), partial(get_benchmark, benchmark)
        ),
        package="PIL",
        extra="images",
    )


MNIST = Downloads("mnist", find_mnist, get_mnist)

DATASETS: dict[str, DataSource] = {
    "colored-digits": DataSource(colored_digits, AGREEMENT, 2, 15_000, "CC BY 4.0"),
    "colored-mnist": DataSource(
        colored_mnist, ("0.1", "0.2", "0.9"), 2, 80_000, "CC BY-SA 3.0", MNIST
    ),
    "rotated-mnist": DataSource(
        rotated_mnist, tuple(map(str, ANGLES)), 10, 70_000, "CC BY-SA 3.0", MNIST
    ),
    **{name: _benchmark_source(benchmark) for name, benchmark in BENCHMARKS.items()},
}
"""The built-in data sets."""


def missing_data(names: Iterable[str], data_dir: Path | None = None) -> dict[str, str]:
    """Those of the built-in data sets that are not on this machine, with the commands to get them.

    Other names are left out.
    """
    cures = {name: DATASETS[name].cure(data_dir) for name in names if name in DATASETS}
    return {name: cure for name, cure in cures.items() if cure is not None}
