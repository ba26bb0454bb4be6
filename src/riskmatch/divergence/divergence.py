"""What every divergence between scalar samples offers, and how samples are grouped by domain."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from riskmatch.divergence.checks import check_finite, check_scalars, is_traced

Pool = Literal["domains", "samples"]
"""What has equal weight in the pool of all risks: every domain, or every sample."""
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
        """Group samples by ``labels`` (n,) of type int64."""
        if torch.compiler.is_compiling():  # sorting needs no number on the host
            distinct, index = labels.unique(return_inverse=True)
            counts = torch.zeros_like(distinct).index_add(0, index, torch.ones_like(index))
            return cls(distinct, index, counts)
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

    @property
    def equal_sizes(self) -> bool:
        """Whether all groups have the same size; False where it is not known yet."""
        if torch.compiler.is_compiling():
            return False
        return bool((self.sizes == self.sizes[0]).all())

    def means(self, values: Tensor) -> Tensor:
        """(m,) the mean of ``values`` (n,) in each group."""
        # Adding up in float32 would be 1e-4 off at a million samples. Apple's GPUs have no float64.
        wide = values.dtype if values.device.type == "mps" else torch.float64
        sums = values.new_zeros(len(self), dtype=wide).index_add(0, self.index, values.to(wide))
        return (sums / self.sizes).to(values.dtype)

    def variances(self, values: Tensor) -> Tensor:
        """(m,) the unbiased variance of ``values`` (n,) in each group."""
        spread = (values - self.means(values)[self.index]).square()
        sums = spread.new_zeros(len(self)).index_add(0, self.index, spread)
        return sums / (self.sizes - 1)

    def weights(self, pool: Pool) -> Tensor:
        """(m,) float64 on the CPU: the weight in the pool of each sample of a group.

        1/(m·n_e) where domains have equal weight, 1/n where samples have. They sum to one over the
        samples.
        """
        sizes = self.sizes.cpu().double()  # Apple's GPUs have no float64
        if pool == "domains":
            return 1 / (len(self) * sizes)
        return torch.ones_like(sizes) / sizes.sum()


def pool_variance(values: Tensor, groups: Groups, pool: Pool) -> Tensor:
    r"""() the variance of the pool, with the samples' weights w: Σ w(r − μ)² / (1 − Σ w²)."""
    weights = groups.weights(pool).to(values)[groups.index]
    mean = weights @ values
    return (weights @ (values - mean).square()) / (1 - weights.square().sum())


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
    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """The divergence of two samples that have been checked.

        Args:
            x: (n,) the first sample.
            y: (k,) the second sample.
            weights: (k,) the probability of each value of ``y``; None where all are 1/k. A subclass
                may leave this argument out; it then needs domains of equal sizes, or
                ``pool="samples"``.
        """

    def to_pool(
        self, risks: Tensor, groups: Groups, which: Tensor, pool: Pool = "domains"
    ) -> Tensor:
        """The mean over the groups ``which`` (k,) of the divergence from the pool of all risks."""
        more: tuple[Tensor, ...] = ()
        if pool == "domains" and not groups.equal_sizes:
            self._check_takes_weights(groups)
            more = (groups.weights(pool).to(risks)[groups.index],)
        if is_traced(which):  # under vmap the worst domain varies from batch to batch
            every = range(len(groups))
            parts = [self.between(risks[groups.index == group], risks, *more) for group in every]
            return torch.stack(parts)[which].mean()
        parts = [self.between(risks[groups.index == group], risks, *more) for group in which]
        return torch.stack(parts).mean()

    def _check_takes_weights(self, groups: Groups) -> None:
        if "weights" not in inspect.signature(self.between).parameters:
            raise ValueError(
                f"{type(self).__name__}.between takes no weights, which a pool of domains with "
                f"different sizes {groups.sizes.tolist()} needs. Let it take (x, y, weights=None), "
                "draw equally many samples of each domain, or set pool='samples'."
            )
