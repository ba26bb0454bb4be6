"""Domains of a data set, in memory or in a memory-mapped file, and batches of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from riskmatch.files import sha256
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from typing_extensions import Self

    from riskmatch.data.preprocessing import TablePreprocessing

Labels = Literal["classes", "tags", "numbers", "any"]
"""Classes (n,), tags (n, k) of 0, 1 and NaN where missing, numbers (n,), or of any shape (n, …)."""
Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Random transformation of a batch of inputs; all randomness comes from the generator."""


class StoredImages:
    """Images in a memory-mapped file, with the interface of a tensor (n, c, h, w).

    Rows are read on access, and the system may drop them again, so a data set can be larger than
    memory. Indexing returns a copy in the memory format "channels last", the order of the file.

    Args:
        pixels: (N, h, w, c), mapped from a file, or what has its interface.
        rows: (n,) rows of ``pixels`` in this view; None for all of them.
        device: device of the tensors that indexing returns.
        content: hash of the file's content; empty where it is unknown.
        contents: (N,) hash of each image; empty where they are unknown.

    Example:
        >>> images = StoredImages(torch.arange(24, dtype=torch.uint8).view(4, 2, 1, 3))
        >>> images.shape, images[torch.tensor([2, 0])][:, :, 0, 0].tolist()
        ((4, 3, 2, 1), [[12, 13, 14], [0, 1, 2]])
        >>> images.take(torch.tensor([3, 1])).take(torch.tensor([1]))[:][:, :, 0, 0].tolist()
        [[6, 7, 8]]
    """

    def __init__(
        self,
        pixels: Any,
        rows: Tensor | None = None,
        device: torch.device | str = "cpu",
        content: str = "",
        contents: Sequence[str] = (),
    ) -> None:
        self._pixels = pixels
        self._rows = torch.arange(len(pixels)) if rows is None else rows
        self.device = torch.device(device)
        self._content, self._contents = content, contents

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, c, h, w)."""
        _, height, width, channels = self._pixels.shape
        return len(self), channels, height, width

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the tensors that indexing returns."""
        dtype: torch.dtype = self._pixels.dtype
        return dtype

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        # NumPy copies whole images; torch's indexing copies value by value, about 20 times slower.
        selected = torch.from_numpy(self._pixels.numpy()[self._select(rows).numpy()])
        return selected.permute(0, 3, 1, 2).to(self.device)

    def take(self, rows: Tensor) -> StoredImages:
        """A view of the images at ``rows``, without reading any."""
        return self._view(self._select(rows), self.device)

    def split(self, size: int) -> Iterator[Tensor]:
        """All images in order, in chunks of ``size``."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def to(self, device: torch.device | str) -> StoredImages:
        """A view that returns tensors on another device, without reading any image."""
        return self._view(self._rows, device)

    def fingerprint(self) -> str | None:
        """Hash of these images; None where the file's content is unknown."""
        if not self._content:
            return None
        return sha256(self._content, self._rows.numpy().tobytes())

    def contents(self) -> list[str]:
        """Hash of each image; empty where they are unknown."""
        return [self._contents[row] for row in self._rows.tolist()] if self._contents else []

    def _view(self, rows: Tensor, device: torch.device | str) -> StoredImages:
        return StoredImages(self._pixels, rows, device, self._content, self._contents)

    def _select(self, rows: Tensor | slice) -> Tensor:
        return self._rows[rows.cpu() if isinstance(rows, Tensor) else rows]


class NamedTensors:
    """Inputs of several tensors by name, with the interface of one tensor (n, …).

    A network receives them as keyword arguments, as those of Hugging Face do.

    Args:
        tensors: tensors of the same samples; the first dimension of each is n.

    Example:
        >>> texts = NamedTensors({"input_ids": torch.ones(4, 9), "length": torch.arange(4)})
        >>> len(texts), texts[torch.tensor([2, 0])].tensors["length"]
        (4, tensor([2, 0]))
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        sizes = {name: len(value) for name, value in tensors.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"Inputs by name must have as many samples each, got {sizes}.")
        self.tensors = dict(tensors)

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n,): the tensors have no other dimension in common."""
        return (len(self),)

    @property
    def dtype(self) -> tuple[torch.dtype, ...]:
        """Data type of each tensor."""
        return tuple(value.dtype for value in self.tensors.values())

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return next(iter(self.tensors.values())).device

    def __getitem__(self, rows: Tensor | slice) -> Any:  # most callers know tensors alone
        return NamedTensors({name: value[rows] for name, value in self.tensors.items()})

    def split(self, sizes: int | Sequence[int]) -> Iterator[Any]:
        """All samples in order, in parts of ``sizes``."""
        parts = zip(*(value.split(sizes) for value in self.tensors.values()), strict=True)
        return (NamedTensors(dict(zip(self.tensors, part, strict=True))) for part in parts)

    def to(self, device: torch.device | str) -> NamedTensors:
        """The tensors on another device."""
        return NamedTensors({name: value.to(device) for name, value in self.tensors.items()})


def concatenate(parts: Sequence[Tensor] | Sequence[NamedTensors]) -> Tensor | NamedTensors:
    """The samples of all ``parts`` in order."""
    first = parts[0]
    if not isinstance(first, NamedTensors):
        return torch.cat(list(parts))  # type: ignore[arg-type]
    named = [part.tensors for part in parts if isinstance(part, NamedTensors)]
    return NamedTensors({name: torch.cat([part[name] for part in named]) for name in named[0]})


@dataclass(frozen=True, eq=False)
class Domain:
    """One source of data.

    Example:
        >>> len(Domain("sketch", torch.zeros(5, 2), torch.zeros(5, dtype=torch.long)))
        5
    """

    name: str
    x: Tensor | StoredImages | NamedTensors
    """(n, …) inputs."""
    y: Tensor
    """Labels: (n,) integers from 0 are classes; (n,) floats the targets of a regression; (n, k)
    floats tags, 0, 1 or NaN where missing; or of any other shape (n, …)."""
    validation: Domain | None = None
    """Validation samples that the data set defines itself, in addition to these."""
    groups: Tensor | None = None
    """(n,) int64 group of each sample: equal ids, in any domain, are one group, which every split
    keeps on one side."""
    ranks: Tensor | None = None
    """(n,) int64 place of each sample among the images of its folder, in the order of torchvision's
    ``ImageFolder``; None for other data."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(
                f"Domain '{self.name}' has {len(self.x)} inputs but {len(self.y)} labels."
            )
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"A domain must have a text as its name, got {self.name!r}.")
        inputs = self.x.tensors if isinstance(self.x, NamedTensors) else {"x": self.x}
        for name, part in {**inputs, "y": self.y}.items():
            check_real(f"Domain '{self.name}': {name}", part)
        if self.groups is not None:
            _check_groups(self, self.groups)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def parts(self) -> list[Domain]:
        """The domain and its separate validation samples."""
        return [self] if self.validation is None else [self, *self.validation.parts]

    def take(self, rows: Tensor) -> Domain:
        """The samples at ``rows``, as a domain of the same name."""
        x = self.x.take(rows) if isinstance(self.x, StoredImages) else self.x[rows]
        groups = None if self.groups is None else self.groups[rows]
        ranks = None if self.ranks is None else self.ranks[rows]
        return replace(self, x=x, y=self.y[rows], groups=groups, ranks=ranks)

    def relabelled(self, convert: Callable[[Tensor], Tensor]) -> Domain:
        """The domain with converted labels."""
        held_out = self.validation and self.validation.relabelled(convert)
        return replace(self, y=convert(self.y), validation=held_out)

    def to(self, device: torch.device | str) -> Domain:
        """The domain on another device."""
        validation = self.validation and self.validation.to(device)
        groups = None if self.groups is None else self.groups.to(device)
        ranks = None if self.ranks is None else self.ranks.to(device)
        return Domain(self.name, self.x.to(device), self.y.to(device), validation, groups, ranks)


@dataclass(frozen=True, eq=False)
class DomainSet:
    """The domains of a data set; inputs have one shape, classes are below ``classes``.

    Example:
        >>> x, tags = torch.zeros(2, 3), torch.tensor([[1.0, 0.0], [torch.nan, 1.0]])
        >>> data = DomainSet("tags", (Domain("a", x, tags),), 0, class_names=("beard", "hat"))
        >>> data.labels, data.outputs
        ('tags', 2)
    """

    name: str
    domains: tuple[Domain, ...]
    classes: int
    """Number of classes; 0 where the labels are none."""
    test_only: tuple[str, ...] = ()
    """Domains that must not be trained on."""
    class_names: tuple[str, ...] = ()
    """Names of the classes by label, or of the tags; empty where they have none."""
    augment: Augment | None = None
    """Applied to training batches; evaluation uses the inputs as they are."""
    preprocessing: TablePreprocessing | None = None
    """What made the inputs from the rows of a table; None where nothing was fitted."""

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"Two domains of '{self.name}' have the same name: {self.names}.")
        shapes = [_shape(domain.x) for domain in self.domains]
        if any(shape != shapes[0] for shape in shapes):
            distinct = [shape for k, shape in enumerate(shapes) if shape not in shapes[:k]]
            raise ValueError(f"The inputs of '{self.name}' must have one shape, got {distinct}.")
        without = [domain.name for domain in self.domains if domain.groups is None]
        if without and len(without) < len(self.domains):
            raise ValueError(
                f"Domain '{without[0]}' of '{self.name}' has no groups: give all some, or none."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the domains, in order."""
        return tuple(domain.name for domain in self.domains)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input; empty for inputs of several tensors by name."""
        return tuple(self.domains[0].x.shape[1:])

    @cached_property
    def labels(self) -> Labels:
        """What the labels are, from their type, shape and values."""
        y = self.domains[0].y
        if not y.is_floating_point():
            return "classes" if y.ndim == 1 else "any"
        if y.ndim != 2:
            return "numbers" if y.ndim == 1 else "any"
        parts = [part.y for domain in self.domains for part in domain.parts]
        tags = all(((y == 0) | (y == 1) | y.isnan()).all() for y in parts)
        return "tags" if tags else "any"

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the classes or tags; their numbers as text where they have no names."""
        count = self.outputs if self.labels == "tags" else self.classes
        return self.class_names or tuple(map(str, range(count)))

    @property
    def outputs(self) -> int:
        """Number of outputs of a network: one per class, per tag, or per entry of a label."""
        return self.classes or math.prod(self.domains[0].y.shape[1:])

    def labelled(self, labels: Labels) -> Self:
        """The data with labels as a task takes them.

        Classes whose names are numbers become these numbers, numbers become a class each, classes
        a tag each.

        Raises:
            ValueError: the labels cannot become these.

        Example:
            >>> y = torch.tensor([0, 1, 1])
            >>> data = DomainSet("years", (Domain("a", torch.zeros(3, 2), y),), 2, (), ("8", "17"))
            >>> data.labelled("numbers").domains[0].y
            tensor([ 8., 17., 17.])
        """
        if labels in (self.labels, "any"):
            return self
        name, classes, names = getattr(self, "label", "") or self.name, 0, self.label_names
        convert: Callable[[Tensor], Tensor]
        if (self.labels, labels) == ("classes", "numbers"):
            try:
                targets = torch.tensor([float(text) for text in names])
            except ValueError:
                raise ValueError(
                    f"A regression needs a label of numbers, and {name!r} holds {names[-1]!r}. "
                    "Choose another label, or the task classification."
                ) from None
            names, convert = (), lambda y: targets.to(y.device)[y]
        elif (self.labels, labels) == ("classes", "tags"):
            number = self.classes
            convert = lambda y: one_hot(y, number).float()  # noqa: E731
        elif (self.labels, labels) == ("numbers", "classes"):
            values = torch.cat([part.y for d in self.domains for part in d.parts]).unique()
            names = tuple(f"{value:.7g}" for value in values.tolist())
            classes, convert = len(names), lambda y: torch.searchsorted(values, y.contiguous())
        else:
            shape = ", ".join(map(str, ("n", *self.domains[0].y.shape[1:])))
            cure = "Choose a task that fits them"
            if self.labels == "any":
                cure = "Tags are 0, 1, or NaN where missing; for other labels name a task of your "
                cure += "own: --task package.module:NAME (task='package.module:NAME' in Python)"
            raise ValueError(
                f"The task takes {labels}, and the labels of {name!r} are "
                f"{'other values' if self.labels == 'any' else self.labels} of shape ({shape}). "
                f"{cure}."
            )

        domains = tuple(domain.relabelled(convert) for domain in self.domains)
        return replace(self, domains=domains, classes=classes, class_names=names)

    def without(self, names: tuple[str, ...]) -> tuple[Domain, ...]:
        """The training domains: all but the test domains ``names``.

        Raises:
            ValueError: a name is unknown, a domain for tests only is missing from ``names``, or no
                domain is left.
        """
        for name in names:
            check_option(f"domain of '{self.name}'", name, self.names)
        for name in self.test_only:
            if name not in names:
                raise ValueError(
                    f"Domain '{name}' of '{self.name}' is for tests only; make it a test domain."
                )
        training = tuple(domain for domain in self.domains if domain.name not in names)
        if not training:
            raise ValueError(
                f"No domain of '{self.name}' is left to train on: test on fewer domains."
            )
        return training


@dataclass(frozen=True)
class Batch:
    """Samples sorted by domain; domains may differ in size.

    Example:
        >>> batch = Batch(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), (2, 3))
        >>> batch.domains, batch.names
        (tensor([0, 0, 1, 1, 1]), ('0', '1'))
    """

    x: Tensor | NamedTensors
    """(n, …) inputs; a mapping of names to tensors becomes :class:`NamedTensors`."""
    y: Tensor
    """(n,) labels, or targets of any shape (n, …)."""
    sizes: tuple[int, ...]
    """(m,) number of samples of each domain, in order."""
    names: tuple[str, ...] = ()
    """(m,) names of the domains, by which methods keep state; by default their positions."""

    def __post_init__(self) -> None:
        if isinstance(self.x, Mapping):
            object.__setattr__(self, "x", NamedTensors(self.x))
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(len(self.sizes)))))
        if not len(self.sizes) == len(self.names) == len(set(self.names)):
            raise ValueError(
                f"A batch needs {len(self.sizes)} different names of domains, got {self.names}."
            )
        if not (sum(self.sizes) == len(self.x) == len(self.y)) or min(self.sizes, default=0) < 1:
            raise ValueError(
                f"Domain sizes {self.sizes} must be positive and add up to the number of inputs "
                f"({len(self.x)}) and of labels ({len(self.y)})."
            )

    @classmethod
    def join(
        cls,
        parts: Sequence[tuple[Tensor | NamedTensors, Tensor]],
        names: tuple[str, ...] = (),
    ) -> Batch:
        """One batch from the samples ``(x, y)`` of each domain; a single domain is not copied."""
        if len(parts) == 1:
            ((x, y),) = parts
            return cls(x, y, (len(x),), names)
        xs, ys = zip(*parts, strict=True)
        return cls(concatenate(xs), torch.cat(ys), tuple(map(len, xs)), names)

    @classmethod
    def of(
        cls,
        x: Tensor | Mapping[str, Tensor],
        y: Tensor,
        domains: Tensor | Sequence[int] | Sequence[str],
    ) -> Batch:
        """A batch from samples in any order and the domain of each; sorted by domain.

        Args:
            x: (n, …) inputs, or a mapping of names to such tensors.
            y: (n,) labels, or targets of any shape (n, …).
            domains: (n,) the domain of each sample: integers or strings, as a tensor, a list or an
                array.

        Example:
            >>> batch = Batch.of(torch.arange(4.0), torch.arange(4), ["b", "a", "b", "b"])
            >>> batch.names, batch.sizes, batch.y
            (('a', 'b'), (1, 3), tensor([1, 0, 2, 3]))
        """
        tensors = {"y": y} if isinstance(x, Mapping | NamedTensors) else {"x": x, "y": y}
        for name, value in tensors.items():
            if not isinstance(value, Tensor):
                cure = f"got {type(value).__name__}; use torch.as_tensor({name})"
                raise TypeError(f"{name} of a batch (x, y, domain) must be a tensor, {cure}.")
        inputs = NamedTensors(x) if isinstance(x, Mapping) else x
        if len(y) != len(inputs):
            raise ValueError(
                f"A batch (x, y, domain) has {len(inputs)} samples x, but {len(y)} labels y."
            )
        values = domains.tolist() if hasattr(domains, "tolist") else domains
        whole = isinstance(values, list | tuple) and len(values) == len(y)
        if not whole or not (_all(values, str) or _all(values, int)):
            raise ValueError(
                "A batch (x, y, domain) needs an integer or a string per sample as domain: "
                f"{len(y)} of one type, got {domains!r}."
            )
        distinct, number, sizes = np.unique(values, return_inverse=True, return_counts=True)
        if (np.diff(number) < 0).any():
            rows = torch.from_numpy(number.argsort(kind="stable"))
            inputs, y = inputs[rows.to(inputs.device)], y[rows.to(y.device)]
        return cls(inputs, y, tuple(sizes.tolist()), tuple(map(str, distinct.tolist())))

    def pieces(self, size: int) -> list[Batch]:
        """Batches of up to ``size`` samples in order, without the boundaries of domains."""
        parts = zip(self.x.split(size), self.y.split(size), strict=True)
        return [Batch(x, y, (len(y),)) for x, y in parts]

    def split(self) -> tuple[Batch, ...]:
        """One batch per domain."""
        parts = zip(self.x.split(self.sizes), self.y.split(self.sizes), self.names, strict=True)
        return tuple(Batch(x, y, (len(x),), (name,)) for x, y, name in parts)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device."""
        return replace(self, x=_moved(self.x, device), y=_moved(self.y, device))

    def pinned(self) -> Batch:
        """The batch with inputs from which a GPU copies while it works."""
        assert isinstance(self.x, Tensor)
        return replace(self, x=self.x.pin_memory(), y=self.y.pin_memory())

    @cached_property
    def domains(self) -> Tensor:
        """(n,) index of each sample's domain."""
        return places(self.sizes, self.x.device)


def _moved(values: Any, device: torch.device | str) -> Any:
    """Values on a device, to which pinned ones are copied while it works."""
    if isinstance(values, Tensor):
        return values.to(device, non_blocking=values.device.type == "cpu" and values.is_pinned())
    return values.to(device)


@lru_cache(maxsize=64)
def places(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """(n,) index of the domain of samples that are sorted by domain.

    Kept, so that batches of the same sizes copy nothing to their device.
    """
    with torch.inference_mode(False):  # what is kept may be trained with later
        return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)


def _check_groups(domain: Domain, groups: Tensor) -> None:
    """Raise ``ValueError`` unless every sample has a group."""
    if groups.shape != (len(domain),) or groups.dtype != torch.long:
        raise ValueError(
            f"Domain '{domain.name}' needs the group of each of its {len(domain)} samples as an "
            f"int64, got {groups.dtype} of shape {tuple(groups.shape)}."
        )
    if domain.validation is not None:
        raise ValueError(
            f"Domain '{domain.name}' has groups and validation samples of its own: leave out one."
        )


def check_real(name: str, values: Tensor | StoredImages) -> None:
    """Raise ``ValueError`` if values are complex: networks take real ones."""
    if values.dtype.is_complex:
        raise ValueError(
            f"{name} must be real numbers, got {values.dtype}. Take abs() or torch.view_as_real()."
        )


def _shape(x: Tensor | StoredImages | NamedTensors) -> object:
    """Shape of one input."""
    if isinstance(x, NamedTensors):
        return {name: tuple(value.shape[1:]) for name, value in x.tensors.items()}
    return tuple(x.shape[1:])


def _all(values: Sequence[object], type_: type) -> bool:
    return all(isinstance(value, type_) and not isinstance(value, bool) for value in values)
