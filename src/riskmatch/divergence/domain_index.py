"""Samples by domain, ragged: indices, means, weights in the pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.divergence.checks import (
    NonFiniteError,
    describe_nonfinite,
    is_small,
    is_traced,
    stays_on_device,
)

Pool = Literal["domains", "samples"]
"""What has equal weight in the pool of all risks: every domain, or every sample."""
Places = list[int] | Tensor
"""Some of the groups; a tensor where their values are traced, as in ``torch.compile``."""
_SHORT_RANGE = 1 << 12  # labels within it are counted, others sorted


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
    names: tuple[str, ...] = ()
    """(m,) the names of the domains; empty where labels are integers."""
    counts: tuple[int, ...] | None = None
    """(m,) the sizes as integers; None where they are traced."""

    @classmethod
    def of(cls, labels: Tensor) -> DomainIndex:
        """Group samples by ``labels`` (n,) of type int64."""
        if is_traced(labels):  # sorting needs no number on the host
            distinct, index = labels.unique(return_inverse=True)
            counts = torch.zeros_like(distinct).index_add(0, index, torch.ones_like(index))
            return cls(distinct, index, counts)
        if is_small(labels):
            return _of_small(labels.numpy().tobytes())
        return _grouped(labels.cpu().numpy()).to(labels.device)

    @classmethod
    def of_risks(cls, risks: Tensor, domains: Any, check: bool = False) -> DomainIndex:
        """Group ``risks`` (n,) by ``domains`` (n,): integers or strings in any container.

        With ``check`` risks on a device are refused if one is not finite, which travels to the host
        with the labels; where these are grouped already, nothing is transferred or checked.
        """
        if isinstance(domains, DomainIndex):
            return domains
        names: tuple[str, ...] = ()
        if not isinstance(domains, Tensor):
            values = np.asarray(domains)
            if values.dtype.kind in "OUST" and all(isinstance(value, str) for value in values.flat):
                distinct, codes = np.unique(values.astype(str), return_inverse=True)
                names, values = tuple(distinct.tolist()), codes.reshape(values.shape)
            if values.dtype.kind not in "iu":
                raise TypeError(
                    "domains must be integer labels or strings, one per risk, got "
                    f"{type(domains).__name__} of {values.dtype}."
                )
            domains = torch.from_numpy(values.astype(np.int64)).to(risks.device)
        if domains.is_floating_point() or domains.is_complex() or domains.dtype == torch.bool:
            raise TypeError(
                f"domains must be integer labels, got {domains.dtype}; use domains.long()."
            )
        if domains.shape != risks.shape:
            raise ValueError(
                f"domains must hold one label per risk, got {tuple(domains.shape)} labels for "
                f"{tuple(risks.shape)} risks."
            )
        if domains.device != risks.device:
            raise ValueError(
                f"domains are on {domains.device} and risks on {risks.device}; "
                "use domains.to(risks.device)."
            )
        if check and stays_on_device(risks) and not is_traced(risks):
            faults = (~risks.detach().isfinite()).sum()
            labels, fault = torch.cat([domains.long(), faults[None]]).cpu().split(len(domains))
            groups = cls.of(labels).to(risks.device)
            if fault:
                groups.check_finite(risks)
        else:
            groups = cls.of(domains.long())
        return replace(groups, names=names) if names else groups

    @classmethod
    @lru_cache(maxsize=64)
    def in_order(cls, sizes: tuple[int, ...], device: torch.device) -> DomainIndex:
        """Samples sorted by group: the first ``sizes[0]`` make up group 0, and so on.

        Example:
            >>> DomainIndex.in_order((1, 2), torch.device("cpu")).index
            tensor([0, 1, 1])
        """
        labels = np.arange(len(sizes)).repeat(sizes)
        return cls.of(torch.from_numpy(labels)).to(device)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.labels)

    def to(self, device: torch.device) -> DomainIndex:
        """The index on another device."""
        labels, index, sizes = (p.to(device) for p in (self.labels, self.index, self.sizes))
        return DomainIndex(labels, index, sizes, self.names, self.counts)

    def name(self, place: int) -> int | str:
        """The label of the domain at ``place``."""
        return self.names[place] if self.names else int(self.labels[place])

    @property
    def equal_sizes(self) -> bool:
        """Whether all groups have the same size; False where it is not known yet."""
        if self.counts is not None:
            return len(set(self.counts)) == 1
        return not torch.compiler.is_compiling() and bool((self.sizes == self.sizes[0]).all())

    def check_finite(self, risks: Tensor) -> None:
        """Raise :class:`NonFiniteError` if a risk is not finite, with the domains of those."""
        faults = [
            f"{description} in domain {self.name(place)}"
            for place, part in enumerate(self.parts(risks.detach()))
            if (description := describe_nonfinite(part))
        ]
        if faults:
            raise NonFiniteError(
                f"Risks must be finite: {'; '.join(faults)} (of {len(risks)} risks). Check the "
                "inputs and the loss of these samples, or lower the learning rate."
            )

    def parts(self, values: Tensor) -> tuple[Tensor, ...]:
        """The ``values`` (n,) of each group."""
        if self.counts is None:
            return tuple(values[self.index == group] for group in range(len(self)))
        order: Tensor = self._kept(("order",), lambda: self.index.argsort(stable=True))
        parts: tuple[Tensor, ...] = values[order].split(self.counts)
        return parts

    def means(self, values: Any) -> Any:
        """(m,) the mean of ``values`` (n,), a tensor or an array, in each group."""
        if isinstance(values, np.ndarray):
            return np.bincount(self.index.numpy(), values) / self.sizes.numpy()
        # Adding up in float32 would be 1e-4 off at a million samples. Apple's GPUs have no float64.
        wide = values.dtype if values.device.type == "mps" else torch.float64
        sums = values.new_zeros(len(self), dtype=wide).index_add(0, self.index, values.to(wide))
        return (sums / self.sizes).to(values.dtype)

    def weights(self, pool: Pool) -> Tensor:
        """(m,) float64: the weight in the pool of each sample of a group.

        1/(m·n_e) where domains have equal weight, 1/n where samples have. They sum to one over the
        samples.
        """
        sizes = self.wide_sizes
        if pool == "domains":
            return 1 / (len(self) * sizes)
        return torch.ones_like(sizes) / sizes.sum()

    def contrasts(self, which: Places, pool: Pool) -> Tensor:
        """(k, m) float64: the weights of each group of ``which`` minus the pool's."""
        key = "contrasts", pool
        every: Tensor = self._kept(key, lambda: self._contrasts(pool))
        if isinstance(which, Tensor):
            return every[which.to(every.device)]
        rows: Tensor = self._kept((*key, tuple(which)), lambda: every[which])
        return rows

    def _contrasts(self, pool: Pool) -> Tensor:
        return (1 / self.wide_sizes).diag() - self.weights(pool)

    @property
    def wide_sizes(self) -> Tensor:
        """(m,) the sizes in float64; on the CPU for Apple's GPUs, which have no float64."""
        sizes: Tensor = self._kept(("sizes",), lambda: _widened(self.sizes))
        return sizes

    def factors(self, values: Any, which: Places, pool: Pool) -> Any:
        """(3, n), of the type of ``values``: weights, and factors of squares in the variance.

        The weights are those of the pool of equal domains. The factors are of the squared distance
        from the mean of the pool, 0 where ``which`` is empty, and from that of the group.
        """
        if isinstance(values, np.ndarray):
            key = "factors", pool, tuple(which)
            return self._kept(key, lambda: self._factors(which, pool)[:, self.index].numpy())
        return self._factors(which, pool).to(values)[:, self.index]

    def _factors(self, which: Places, pool: Pool) -> Tensor:
        sizes, weights = self.wide_sizes, self.weights(pool)
        outer = weights / (1 - sizes @ weights.square())
        which = torch.as_tensor(which, dtype=torch.long, device=sizes.device)
        shares = 1 / (len(which) * (sizes[which] - 1))
        return torch.stack(
            [self.weights("domains"), outer, torch.zeros_like(sizes).scatter(0, which, shares)]
        )

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if self.counts is None:  # traced: nothing outlives the call
            return make()
        kept = self.__dict__.setdefault("_made", {})
        if key not in kept:
            with torch.inference_mode(False):  # what is kept may be trained with later
                kept[key] = make()
        return kept[key]


@lru_cache(maxsize=64)
def _of_small(labels: bytes) -> DomainIndex:
    """Index of few int64 labels; cached, as the batches of a loop often have the same labels."""
    return _grouped(np.frombuffer(labels, np.int64))


def _grouped(labels: NDArray[np.int64]) -> DomainIndex:
    """Index of int64 labels: they are counted, or sorted where they lie far apart."""
    low = int(labels.min())
    if int(labels.max()) - low <= _SHORT_RANGE:
        index = labels - low
        counts = np.bincount(index)
        (used,) = counts.nonzero()
        distinct, sizes = used + low, counts[used]
        if len(used) < len(counts):  # close the gaps between the labels
            index = (counts > 0).cumsum()[index] - 1
    else:
        distinct, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    with torch.inference_mode(False):  # what is kept may be trained with later
        parts = [torch.from_numpy(part) for part in (distinct, index, sizes)]
    return DomainIndex(parts[0], parts[1], parts[2], counts=tuple(sizes.tolist()))


def _widened(sizes: Tensor) -> Tensor:
    return (sizes.cpu() if sizes.device.type == "mps" else sizes).double()
