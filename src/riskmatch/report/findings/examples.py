"""The samples of a data set as one can look at them: small pictures, or rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.report.findings.thumbnails import digit, photograph

if TYPE_CHECKING:
    from riskmatch.data.domain import Domain, DomainSet
    from riskmatch.data.images.index import ImageIndex

VALUES = 12
"""Of a row of features, shown."""


@dataclass(frozen=True)
class Example:
    """One sample."""

    label: int
    name: str | None = None
    """Of its file."""
    thumbnail: str | None = None
    """A data URI."""
    row: dict[str, str] | None = None


@dataclass(frozen=True)
class Examples:
    """The validation samples of a run's data set, by domain and place."""

    classes: tuple[str, ...]
    """Their names, by label."""
    domains: dict[str, Domain]
    trial: int
    """Of the split."""
    show: Callable[[Any, int], Example]
    """From an input and its label to what one can look at."""

    def of(self, domain: str, places: Sequence[int]) -> list[Example]:
        """The samples at some places of the validation split of a domain."""
        import torch

        from riskmatch.data.splits import split

        some = split(self.domains[domain], self.trial)["val"].take(torch.tensor(places))
        return [self.show(x, int(y)) for x, y in zip(some.x[:], some.y, strict=True)]


def of_tensors(found: DomainSet, trial: int) -> Examples:
    """Samples that lie in memory."""
    classes = found.class_names or tuple(map(str, range(found.classes)))
    return Examples(classes, {domain.name: domain for domain in found.domains}, trial, sample)


def of_files(index: ImageIndex, trial: int) -> Examples:
    """Images that are read when they are shown."""
    import torch

    from riskmatch.data.domain import Domain

    labels, places = torch.tensor(index.labels), torch.tensor(index.domains)
    rows = torch.arange(len(index))
    domains = {
        name: Domain(name, rows[places == place], labels[places == place])
        for place, name in enumerate(index.domain_names)
    }
    return Examples(
        index.class_names,
        domains,
        trial,
        lambda row, label: Example(label, index.paths[row], photograph(index.file(int(row)))),
    )


def sample(x: Any, label: int) -> Example:
    """One input as a tensor: a picture (channels, height, width), or a row of features (d,)."""
    if x.ndim == 3:
        return Example(label, thumbnail=digit(x.numpy()))
    values = x.flatten().tolist()
    return Example(label, row={str(k): f"{v:.4g}" for k, v in enumerate(values[:VALUES])})
