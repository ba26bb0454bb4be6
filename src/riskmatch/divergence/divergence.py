"""What every divergence between scalar samples offers, and how samples are grouped by domain."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from riskmatch.divergence import few
from riskmatch.divergence.checks import check_finite, check_scalars, is_traced
from riskmatch.divergence.few import Array, is_few

Pool = Literal["domains", "samples"]
"""What has equal weight in the pool of all risks: every domain, or every sample."""
_FEW_LABELS = 1 << 12  # labels within so short a range are counted, others sorted


@dataclass(frozen=True)
class DomainIndex:
    """Samples grouped by integer labels in any order, ragged.

    Example:
        >>> DomainIndex.of(torch.tensor([7, 3, 7])).sizes
        tensor([1, 2])
    """

    labels: Tensor
    """(m,) the distinct labels, ascending."""
    index: Tensor
    """(n,) the position in ``labels`` of each sample's label."""
    sizes: Tensor
    """(m,) how many samples carry each label."""

    @classmethod
    def of(cls, labels: Tensor) -> DomainIndex:
        """Group samples by ``labels`` (n,) of type int64."""
        if is_few(labels):
            return _of_few(labels.numpy().tobytes())
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

    @classmethod
    @lru_cache(maxsize=64)
    def in_order(cls, sizes: tuple[int, ...], device: torch.device) -> DomainIndex:
        """Samples sorted by group: the first ``sizes[0]`` make up group 0, and so on.

        Example:
            >>> DomainIndex.in_order((1, 2), torch.device("cpu")).index
            tensor([0, 1, 1])
        """
        with torch.inference_mode(False):  # what is kept may be trained with later
            labels = torch.arange(len(sizes), device=device)
            counts = torch.tensor(sizes, device=device)
            index = labels.repeat_interleave(counts)
        return cls(labels, index, counts)

    @cached_property
    def arrays(self) -> few.GroupArrays:
        """The groups of few samples on the CPU as arrays."""
        return few.GroupArrays(self.index.numpy(), self.sizes.numpy())

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

    def weights(self, pool: Pool) -> Tensor:
        """(m,) float64 on the CPU: the weight in the pool of each sample of a group.

        1/(m·n_e) where domains have equal weight, 1/n where samples have. They sum to one over the
        samples.
        """
        sizes = self.sizes.cpu().double()  # Apple's GPUs have no float64
        if pool == "domains":
            return 1 / (len(self) * sizes)
        return torch.ones_like(sizes) / sizes.sum()

    def contrasts(self, which: Tensor, pool: Pool) -> Tensor:
        """(k, m) float64 on the CPU: the weights of each group of ``which`` minus the pool's."""
        return ((1 / self.sizes.cpu().double()).diag() - self.weights(pool))[which.cpu()]


@lru_cache(maxsize=64)
def _of_few(labels: bytes) -> DomainIndex:
    """Index of few int64 labels; cached, as the batches of a loop often have the same labels."""
    arrays = _grouped(np.frombuffer(labels, np.int64))
    with torch.inference_mode(False):  # what is kept may be trained with later
        return DomainIndex(*map(torch.from_numpy, arrays))


def _grouped(labels: Array) -> tuple[Array, Array, Array]:
    """Distinct labels, their positions and their counts; short where the labels have no gaps."""
    low = int(labels.min())
    if int(labels.max()) - low < len(labels):
        index = labels - low
        sizes = np.bincount(index)
        if sizes.all():
            return np.arange(low, low + len(sizes)), index, sizes
    return np.unique(labels, return_inverse=True, return_counts=True)


def risk_variance(values: Tensor, groups: DomainIndex, which: Tensor, pool: Pool) -> Tensor:
    r"""() the variance of the pool plus the mean unbiased variance of the groups ``which``.

    The pool's is Σ w(r − μ)² / (1 − Σ w²), with the samples' weights w.
    """
    weights = groups.weights(pool).to(values)[groups.index]
    factors = 1 / (len(which) * (groups.sizes[which] - 1).to(values.dtype))
    shares = torch.zeros_like(groups.sizes, dtype=values.dtype).scatter(0, which, factors)
    # Products and sums: autocast would compute a dot product in half precision.
    apart = values - (weights * values).sum()
    within = values - groups.means(values)[groups.index]
    inner = (shares[groups.index] * within.square()).sum()
    return (weights * apart.square()).sum() / (1 - weights.square().sum()) + inner


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision samples in float32; others as they are."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


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
                    f"{self.min_samples}: take more samples."
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
        self, risks: Tensor, groups: DomainIndex, which: Tensor, pool: Pool = "domains"
    ) -> Tensor:
        """The mean over the groups ``which`` (k,) of the divergence from the pool of all risks."""
        more: tuple[Tensor, ...] = ()
        if pool == "domains" and not groups.equal_sizes:
            self._check_takes_weights(groups)
            more = (groups.weights(pool).to(risks)[groups.index],)
        if is_traced(which):  # under vmap the worst domain varies from batch to batch
            every = range(len(groups))
            parts = [self._from_group(group, risks, groups, more) for group in every]
            return torch.stack(parts)[which].mean()
        parts = [self._from_group(group, risks, groups, more) for group in which]
        return torch.stack(parts).mean()

    def _from_group(
        self, group: int | Tensor, risks: Tensor, groups: DomainIndex, weights: tuple[Tensor, ...]
    ) -> Tensor:
        """The divergence of one group from the pool."""
        value = self.between(risks[groups.index == group], risks, *weights)
        if not isinstance(value, Tensor) or value.ndim:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise TypeError(
                f"{type(self).__name__}.between must return a tensor with one number, of shape (), "
                f"got {got}."
            )
        return value

    def few_to_pool(self, risks: few.FewSamples, group: int | None, pool: Pool) -> few.Known | None:
        """:meth:`to_pool` of one group, or of all, on few risks; None to let torch compute it."""
        return None

    def _check_takes_weights(self, groups: DomainIndex) -> None:
        if "weights" not in inspect.signature(self.between).parameters:
            raise ValueError(
                f"{type(self).__name__}.between takes no weights, which a pool of domains with "
                f"different sizes {groups.sizes.tolist()} needs. Let it take (x, y, weights=None), "
                "draw equally many samples of each domain, or set pool='samples', which "
                "RiskMatching, risk_matching_penalty and RDM have."
            )
