"""Where samples come from: one domain, and the domains of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from riskmatch.data.stored import Stored
from riskmatch.validation import check_option

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""What training makes of a domain's batch of inputs; every choice comes from the generator."""


@dataclass(frozen=True, eq=False)
class Domain:
    """One source of data.

    Example:
        >>> len(Domain("sketch", torch.zeros(5, 2), torch.zeros(5, dtype=torch.long)))
        5
    """

    name: str
    x: Tensor | Stored
    """(n, …) the inputs."""
    y: Tensor
    """(n,) the labels."""
    validation: Domain | None = None
    """Validation samples beside these, where the data set itself says which they are."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(
                f"Domain '{self.name}' has {len(self.x)} inputs but {len(self.y)} labels."
            )

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> Domain:
        """The samples at ``rows``, as a domain of the same name."""
        x = self.x.take(rows) if isinstance(self.x, Stored) else self.x[rows]
        return replace(self, x=x, y=self.y[rows])

    def to(self, device: torch.device | str) -> Domain:
        """The domain on another device."""
        validation = self.validation and self.validation.to(device)
        return Domain(self.name, self.x.to(device), self.y.to(device), validation)


@dataclass(frozen=True, eq=False)
class DomainSet:
    """The domains of a data set; inputs have one shape, labels are below ``classes``."""

    name: str
    domains: tuple[Domain, ...]
    classes: int
    test_only: tuple[str, ...] = ()
    """The domains on which nobody may train."""
    class_names: tuple[str, ...] = ()
    """By label, where the classes have names."""
    augment: Augment | None = None
    """What training does to a batch; evaluation sees the inputs as they are."""

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"Two domains of '{self.name}' have the same name: {self.names}.")
        shapes = {tuple(domain.x.shape[1:]) for domain in self.domains}
        if len(shapes) != 1:
            raise ValueError(f"The inputs of '{self.name}' need one shape, got {sorted(shapes)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the domains, in order."""
        return tuple(domain.name for domain in self.domains)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.domains[0].x.shape[1:])

    def without(self, names: tuple[str, ...]) -> tuple[Domain, ...]:
        """The domains other than ``names``, each of which must exist; at least one must remain.

        Those that are for tests only must be among ``names``.
        """
        for name in names:
            check_option(f"domain of '{self.name}'", name, self.names)
        for name in self.test_only:
            if name not in names:
                raise ValueError(
                    f"Domain '{name}' of '{self.name}' is for tests only; make it a test domain."
                )
        left = tuple(domain for domain in self.domains if domain.name not in names)
        if not left:
            raise ValueError(f"No domain of '{self.name}' is left to train on.")
        return left
