"""The samples of a data set as one can look at them: small pictures, or rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.report.findings.thumbnails import digit, photograph

if TYPE_CHECKING:
    from riskmatch.config import RunConfig
    from riskmatch.data.domain import Domain
    from riskmatch.data.images.index import ImageIndex

VALUES = 12
"""Of a row that are shown."""


@dataclass(frozen=True)
class Example:
    """One sample."""

    label: int
    name: str
    """Of its file, or its number in the split."""
    thumbnail: str | None = None
    """A data URI."""
    row: dict[str, str] | None = None


Show = Callable[[Any, int], Example]
"""From an input and its label to what one can look at."""


class Examples:
    """The validation samples of a run's data set, by domain and place.

    Images are read from their files, one by one, so that nothing is decoded that is not shown.

    Raises:
        FileNotFoundError: the data set is not on this machine.
        ValueError, ImportError: it cannot be loaded.
    """

    def __init__(self, config: RunConfig, data_dir: Path | None = None) -> None:
        from riskmatch.data.catalogue import DATASETS, is_path, load
        from riskmatch.data.images.benchmarks import BENCHMARKS

        self._trial = config.trial
        self._show: Show
        if config.data in BENCHMARKS or (config.data not in DATASETS and is_path(config.data)):
            index = _index(config.data, data_dir)
            self._domains = {domain.name: domain for domain in _rows(index)}
            self._show = lambda row, label: _file(index, int(row), label)
            self.classes: tuple[str, ...] = index.class_names
        else:
            found = load(config.data, config.data_options, data_dir)
            self._domains = {domain.name: domain for domain in found.domains}
            self._show = sample
            self.classes = found.class_names or tuple(map(str, range(found.classes)))

    def of(self, domain: str, places: Sequence[int]) -> list[Example]:
        """The samples at some places of the validation split of a domain."""
        from riskmatch.data.splits import split

        part = split(self._domains[domain], self._trial)["val"]
        return [self._show(part.x[place], int(part.y[place])) for place in places]


def sample(x: Any, label: int) -> Example:
    """One input as a tensor: a picture (channels, height, width), or a row of features (d,)."""
    if x.ndim == 3:
        return Example(label, "", thumbnail=digit(x.numpy()))
    values = x.flatten().tolist()
    return Example(label, "", row={str(k): f"{v:.4g}" for k, v in enumerate(values[:VALUES])})


def _index(data: str, data_dir: Path | None) -> ImageIndex:
    from riskmatch.data.catalogue import find_images, index_path
    from riskmatch.data.images.locate import index_benchmark

    place, benchmark = find_images(data, data_dir)
    return index_path(place) if benchmark is None else index_benchmark(benchmark, place)


def _rows(index: ImageIndex) -> list[Domain]:
    """The domains of an index, whose inputs are the rows of the images in it."""
    import torch

    from riskmatch.data.domain import Domain

    labels, places = torch.tensor(index.labels), torch.tensor(index.domains)
    rows = torch.arange(len(index))
    return [
        Domain(name, rows[places == place], labels[places == place])
        for place, name in enumerate(index.domain_names)
    ]


def _file(index: ImageIndex, row: int, label: int) -> Example:
    return Example(label, index.paths[row], thumbnail=photograph(index.file(row)))
