"""What every divergence between scalar samples offers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from riskmatch.divergence.checks import at_least_float32, check_finite, check_scalars
from riskmatch.divergence.domain_index import DomainIndex, Places, Pool
from riskmatch.divergence.numpy_forms import Array, ValueAndGrad


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
        self, risks: Tensor, groups: DomainIndex, which: Places, pool: Pool = "domains"
    ) -> Tensor:
        """The mean over the groups ``which`` (k,) of the divergence from the pool of all risks."""
        more: tuple[Tensor, ...] = ()
        if pool == "domains" and not groups.equal_sizes:
            self._check_takes_weights(groups)
            more = (groups.weights(pool).to(risks)[groups.index],)
        samples = groups.parts(risks)
        if isinstance(which, Tensor):  # which domain is the worst is not known here
            every = [self._from_group(part, risks, more) for part in samples]
            return torch.stack(every)[which].mean()
        return torch.stack([self._from_group(samples[g], risks, more) for g in which]).mean()

    def value_and_grad(
        self, risks: Array, groups: DomainIndex, which: list[int], pool: Pool, dtype: torch.dtype
    ) -> ValueAndGrad | None:
        """:meth:`to_pool` of few risks and its gradient; None to leave it to autograd.

        ``dtype``, which the risks had, tells how precise the result has to be.
        """
        return None

    def _from_group(self, part: Tensor, risks: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        """The divergence of one group from the pool."""
        value = self.between(part, risks, *weights)
        if not isinstance(value, Tensor) or value.ndim:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise TypeError(
                f"{type(self).__name__}.between must return a tensor with one number, of shape (), "
                f"got {got}."
            )
        return value

    def _check_takes_weights(self, groups: DomainIndex) -> None:
        if "weights" not in inspect.signature(self.between).parameters:
            raise ValueError(
                f"{type(self).__name__}.between takes no weights, which a pool of domains with "
                f"different sizes {groups.sizes.tolist()} needs. Let it take (x, y, weights=None), "
                "draw equally many samples of each domain, or set pool='samples', which "
                "RiskMatching, risk_matching_penalty and RDM have."
            )
