"""What every divergence between scalar samples offers, and how samples are grouped by domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.divergence.checks import check_finite, check_scalars

_FEW_LABELS = 1 << 12  # labels within so short a range are counted, others sorted


@dataclass(frozen=True)
class Groups:
    """Samples grouped by integer labels in any order, ragged.

    Example:
        >>> Groups.of(torch.tensor([7, 3, 7])).sizes
        tensor([1, 2])
    """

    labels: Tensor
    """(m,) the distinct labels, ascending."""
    index: Tensor
    """(n,) the position in ``labels`` of each sample's label."""
    sizes: Tensor
    """(m,) how many samples carry each label."""

    @classmethod
    def of(cls, labels: Tensor) -> Groups:
        """Group samples by ``labels`` (n,)."""
        low, high = (int(bound) for bound in torch.aminmax(labels))
        if high - low > _FEW_LABELS:
            distinct, index = labels.unique(return_inverse=True)
            return cls(distinct, index, index.bincount(minlength=distinct.numel()))
        index = (labels - low if low else labels).long()
        sizes = index.bincount()
        found = sizes.nonzero()[:, 0]
        if found.numel() < sizes.numel():  # close the gaps between the labels
            index, sizes = (sizes > 0).cumsum(0)[index] - 1, sizes[found]
        return cls((found + low).to(labels.dtype), index, sizes)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.labels)

    def means(self, values: Tensor) -> Tensor:
        """(m,) the mean of ``values`` (n,) in each group."""
        # Adding up in float32 would be 1e-4 off at a million samples. Apple's GPUs have no float64.
        wide = values.dtype if values.device.type == "mps" else torch.float64
        sums = values.new_zeros(len(self), dtype=wide).index_add(0, self.index, values.to(wide))
        return (sums / self.sizes).to(values.dtype)


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision samples in float32; others as they are."""
    return values if values.dtype == torch.float64 else values.float()


class Divergence(ABC):
    """A number that is zero for equal distributions and grows as they part.

    A subclass implements :meth:`between`; a user calls the divergence with two samples.
    """

    min_samples: int = 1
    """The fewest samples from which the divergence can be estimated."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The divergence of the samples ``x`` (n,) and ``y`` (k,), a scalar tensor."""
        samples = {"x": x, "y": y}
        for name, values in samples.items():
            check_scalars(name, values)
        if x.device != y.device:
            raise ValueError(
                f"x is on {x.device} and y on {y.device}; move one with .to(other.device)."
            )
        for name, values in samples.items():
            check_finite(name, values)
            if len(values) < self.min_samples:
                raise ValueError(
                    f"{name} has {len(values)} sample, and {type(self).__name__} needs at least "
                    f"{self.min_samples}, because a variance is estimated."
                )
        return self.between(at_least_float32(x), at_least_float32(y))

    @abstractmethod
    def between(self, x: Tensor, y: Tensor) -> Tensor:
        """The divergence of two samples that have been checked."""

    def to_pool(self, risks: Tensor, groups: Groups, which: Tensor) -> Tensor:
        """The mean over the groups ``which`` (k,) of the divergence from the pool of all risks."""
        parts = [self.between(risks[groups.index == group], risks) for group in which]
        return torch.stack(parts).mean()
