"""Batches: samples of several domains in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Samples sorted by domain; domains may differ in size.

    Example:
        >>> batch = Batch(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), (2, 3))
        >>> batch.domains
        tensor([0, 0, 1, 1, 1])
    """

    x: Tensor
    """(n, …) inputs."""
    y: Tensor
    """(n,) labels."""
    sizes: tuple[int, ...]
    """(m,) number of samples of each domain, in order."""

    def __post_init__(self) -> None:
        if not (sum(self.sizes) == len(self.x) == len(self.y)) or min(self.sizes, default=0) < 1:
            raise ValueError(
                f"Domain sizes {self.sizes} must be positive and add up to the number of inputs "
                f"({len(self.x)}) and of labels ({len(self.y)})."
            )

    @classmethod
    def join(cls, parts: Sequence[tuple[Tensor, Tensor]]) -> Batch:
        """One batch from the samples ``(x, y)`` of each domain; a single domain is not copied."""
        if len(parts) == 1:
            ((x, y),) = parts
            return cls(x, y, (len(x),))
        xs, ys = zip(*parts, strict=True)
        return cls(torch.cat(xs), torch.cat(ys), tuple(map(len, xs)))

    def split(self) -> tuple[Batch, ...]:
        """One batch per domain."""
        xs, ys = self.x.split(self.sizes), self.y.split(self.sizes)
        return tuple(Batch(x, y, (len(x),)) for x, y in zip(xs, ys, strict=True))

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device."""
        return Batch(self.x.to(device), self.y.to(device), self.sizes)

    @cached_property
    def domains(self) -> Tensor:
        """(n,) index of each sample's domain."""
        sizes = torch.tensor(self.sizes, device=self.x.device)
        return torch.arange(len(self.sizes), device=self.x.device).repeat_interleave(sizes)
