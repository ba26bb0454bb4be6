"""A batch of risks by domain: its matching penalty and variance, by torch or, if few, by NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from riskmatch.divergence import few
from riskmatch.divergence.checks import (
    NonFiniteError,
    all_finite,
    check_scalars,
    describe_nonfinite,
    is_traced,
)
from riskmatch.divergence.divergence import (
    Divergence,
    DomainIndex,
    Pool,
    at_least_float32,
    risk_variance,
)

Match = Literal["worst", "variance"]
NonFinite = Literal["raise", "propagate"]


class MatchedRisks:
    """A checked batch of risks, grouped by domain, and the domains to match with the pool."""

    def __init__(
        self,
        risks: Tensor,
        domains: Any,
        match: Match,
        pool: Pool,
        nonfinite: NonFinite = "raise",
    ) -> None:
        check_scalars("risks", risks)
        self.names: tuple[str, ...] = ()
        if isinstance(domains, DomainIndex):
            self.groups = domains
        else:
            labels, self.names = _labels(domains, risks)
            self.groups = DomainIndex.of(labels)
        self.risks = at_least_float32(risks)
        self.match: Match = match
        self.pool: Pool = pool
        self._few: few.FewSamples | None = None
        self._few_group: int | None = None  # of few risks: the domain to match; None for all
        if few.is_few(risks) and not is_traced(self.groups.index):
            values, arrays = few.as_array(self.risks), self.groups.arrays
            self._few = few.FewSamples(values, arrays, few.order_of(risks))
            means = arrays.means(values).tolist()
            self.finite = all(map(math.isfinite, means)) or bool(np.isfinite(values).all())
            if match == "worst":
                self._few_group = means.index(max(means))
        else:
            self.finite = all_finite(risks)
        if not self.finite and nonfinite == "raise":
            raise _nonfinite(risks, self.groups, self.names)

    @property
    def worst(self) -> Tensor:
        """() the place of the domain with the largest mean risk."""
        if self._few_group is not None:
            return torch.from_numpy(np.asarray(self._few_group))
        return self.groups.means(self.risks.detach()).argmax()

    @property
    def which(self) -> Tensor:
        """(k,) the places of the domains to match with the pool."""
        if self.match == "worst":
            return self.worst[None]
        return torch.arange(len(self.groups), device=self.risks.device)

    def domain_risks(self) -> Tensor:
        """(m,) the mean risk of each domain."""
        return self.groups.means(self.risks)

    def penalty(self, divergence: Divergence) -> Tensor:
        """() the mean divergence of the matched domains from the pool."""
        if not self.finite:
            return self.risks.sum() * torch.nan
        if self._one_domain:
            return (self.risks * 0).sum()
        self._check_divergence(divergence)
        known = self._few_penalty(divergence)
        if known is not None:
            return few.differentiable(self.risks, known)
        return divergence.to_pool(self.risks, self.groups, self.which, self.pool)

    def variance(self) -> Tensor:
        """() the variance of the pool plus the mean variance of the matched domains."""
        if not self.finite:
            return self.risks.sum() * torch.nan
        self._check_sizes(2, "variance regularisation", "variance_weight=0")
        return risk_variance(self.risks, self.groups, self.which, self.pool)

    def terms(
        self, divergence: Divergence, factors: Mapping[str, float]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Penalty ``matching`` and ``variance`` with their factors, and the penalty without.

        A term with factor 0 is left out.
        """
        parts, raw = {}, {}
        if factors["matching"]:
            raw["matching"] = self.penalty(divergence)
            parts["matching"] = factors["matching"] * raw["matching"]
        if factors["variance"]:
            parts["variance"] = factors["variance"] * self.variance()
        return parts, raw

    def few_terms(
        self, divergence: Divergence, factors: Mapping[str, float]
    ) -> tuple[dict[str, few.Known], dict[str, Tensor]] | None:
        """As :meth:`terms`, with the mean ``risk`` of the domains, and with their gradients.

        Returns:
            None where the risks are not few, or the divergence is computed by torch alone.
        """
        if self._few is None or not self.finite or self._one_domain:
            return None
        values, groups, _ = self._few
        terms, raw = {"risk": groups.mean_of_means(values)}, {}
        if factors["matching"]:
            self._check_divergence(divergence)
            penalty = self._few_penalty(divergence)
            if penalty is None:
                return None
            terms["matching"], raw["matching"] = penalty, few.as_tensor(penalty.value, self.risks)
        if factors["variance"]:
            self._check_sizes(2, "variance regularisation", "variance_weight=0")
            terms["variance"] = groups.variance(values, self.pool, self._few_group)
        return {name: term.times(factors[name]) for name, term in terms.items()}, raw

    @property
    def _one_domain(self) -> bool:
        if self._few is not None:
            return len(self._few.groups.sizes) == 1
        return not is_traced(self.groups.sizes) and len(self.groups) == 1

    def _few_penalty(self, divergence: Divergence) -> few.Known | None:
        if self._few is None:
            return None
        return divergence.few_to_pool(self._few, self._few_group, self.pool)

    def _check_divergence(self, divergence: Divergence) -> None:
        cure = "a divergence that needs one alone, such as 'mmd'"
        self._check_sizes(divergence.min_samples, type(divergence).__name__, cure)

    def _check_sizes(self, least: int, purpose: str, cure: str) -> None:
        if least == 1 or (self._few is not None and self._few.groups.smallest >= least):
            return
        if is_traced(self.which):
            return
        which = self.which.cpu().numpy()
        sizes = self.groups.sizes.cpu().numpy()[which]
        if sizes.min() < least:
            label = self.groups.labels[which[sizes.argmin()]]
            name = self.names[int(label)] if self.names else int(label)
            raise ValueError(
                f"Domain {name} has {int(sizes.min())} sample in this batch, and {purpose} needs "
                f"{least} per domain. Take larger batches, or {cure}."
            )


def _labels(domains: Any, risks: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """Integer labels (n,) on the device of ``risks``, and the names they stand for, if any."""
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
        raise TypeError(f"domains must be integer labels, got {domains.dtype}; use domains.long().")
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
    return domains.long(), names


def _nonfinite(risks: Tensor, groups: DomainIndex, names: tuple[str, ...]) -> NonFiniteError:
    found = []
    for group, label in enumerate(groups.labels.tolist()):
        if description := describe_nonfinite(risks[groups.index == group]):
            found.append(f"{description} in domain {names[label] if names else label}")
    return NonFiniteError(
        f"Risks must be finite: {'; '.join(found)} (of {len(risks)} risks). Check the inputs and "
        "the loss of these samples, or lower the learning rate."
    )
