"""Matched domains of a batch of risks: their penalty and their variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from riskmatch.divergence.checks import is_small, stays_on_device
from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Places, Pool
from riskmatch.divergence.numpy_forms import ValueAndGrad

Match = Literal["worst", "variance"]
NonFinite = Literal["raise", "propagate"]


def matched_domains(
    risks: Tensor, groups: DomainIndex, match: Match, nonfinite: NonFinite
) -> Places | None:
    """The domains to match with the pool, for :class:`MatchedRisks`.

    A tensor, and risks that are not finite propagate, where the host would wait for a number.
    """
    if stays_on_device(risks):
        every = torch.arange(len(groups), device=risks.device)
        return groups.means(risks.detach()).argmax(0, keepdim=True) if match == "worst" else every
    values: Any = risks.detach()
    means = groups.means(values.numpy() if is_small(values) else values).tolist()
    if all(map(math.isfinite, means)) or bool(torch.isfinite(values).all()):
        return [means.index(max(means))] if match == "worst" else list(range(len(means)))
    if nonfinite == "propagate":
        return None
    groups.check_finite(risks)
    return None


@dataclass(frozen=True)
class MatchedRisks:
    """Risks by domain, and the domains that are matched with the pool."""

    risks: Tensor
    """(n,) in float32 or float64."""
    groups: DomainIndex
    pool: Pool
    which: Places | None
    """The domains that are matched; None where a risk is not finite, and terms are then NaN."""

    def penalty(self, divergence: Divergence) -> Tensor:
        """() the mean divergence of the matched domains from the pool."""
        if self.which is None:
            return self.risks.sum() * torch.nan
        if self.groups.counts is not None and len(self.groups) == 1:
            return (self.risks * 0).sum()
        if (least := divergence.min_samples) > 1:
            cure = "a divergence that needs one alone, such as 'mmd'"
            self._check_sizes(least, type(divergence).__name__, cure)
        return divergence.to_pool(self.risks, self.groups, self.which, self.pool)

    def variance(self) -> Tensor:
        """() the variance of the pool plus the mean variance of the matched domains."""
        if self.which is None:
            return self.risks.sum() * torch.nan
        self._check_sizes_for_variance()
        variance: Tensor = _mean_and_variance(self.risks, self.groups, self.which, self.pool)[2]
        return variance

    def known(
        self, divergence: Divergence | None, with_variance: bool
    ) -> dict[str, ValueAndGrad] | None:
        """Mean ``risk`` of the domains, ``matching`` and ``variance`` if asked for, in NumPy.

        None where the risks are not few, or the gradient of the divergence is left to autograd.
        """
        if not isinstance(self.which, list) or len(self.groups) == 1 or not is_small(self.risks):
            return None
        if with_variance:
            self._check_sizes_for_variance()
        values = self.risks.detach().numpy().astype(np.float64)
        mean, weights, variance, slopes = _mean_and_variance(
            values, self.groups, self.which if with_variance else [], self.pool
        )
        terms = {"risk": ValueAndGrad(mean, weights)}
        if divergence is not None:
            penalty = divergence.value_and_grad(
                values, self.groups, self.which, self.pool, self.risks.dtype
            )
            if penalty is None:
                return None
            terms["matching"] = penalty
        if with_variance:
            terms["variance"] = ValueAndGrad(variance, slopes)
        return terms

    def _check_sizes_for_variance(self) -> None:
        self._check_sizes(2, "variance regularisation", "variance_weight=0")

    def _check_sizes(self, least: int, purpose: str, cure: str) -> None:
        sizes = self.groups.counts
        if sizes is None or self.which is None:
            return
        which = self.which if isinstance(self.which, list) else range(len(sizes))
        place = min(which, key=sizes.__getitem__)
        if sizes[place] < least:
            raise ValueError(
                f"Domain {self.groups.name(place)} has {sizes[place]} sample in this batch, and "
                f"{purpose} needs {least} per domain. Take larger batches, or {cure}."
            )


def _mean_and_variance(values: Any, groups: DomainIndex, which: Places, pool: Pool) -> list[Any]:
    """The mean of the groups' means and its gradient; a variance and its gradient.

    The variance is that of the pool, Σ w(r − μ)² / (1 − Σ w²) with the samples' weights w, plus
    the mean unbiased variance of the groups ``which``.

    Args:
        values: (n,) a tensor or, for few samples, an array.
        groups: the groups of the samples.
        which: some of the groups; without any there is no variance.
        pool: what has equal weight in the pool.

    Returns:
        () and (n,) twice.
    """
    weights, outer, inner = groups.factors(values, which, pool)
    # Products and sums: autocast would compute a dot product in half precision.
    mean = (weights * values).sum()
    if isinstance(which, list) and not which:
        return [mean, weights, None, None]
    apart = values - (mean if pool == "domains" else (outer * values).sum() / outer.sum())
    index = groups.index if isinstance(values, Tensor) else groups.index.numpy()
    within = values - groups.means(values)[index]
    outer_slopes, inner_slopes = outer * apart, inner * within
    variance = (outer_slopes * apart + inner_slopes * within).sum()
    return [mean, weights, variance, 2 * (outer_slopes + inner_slopes)]
