"""The terms of a batch of risks: their mean, and the penalty and variance of matched domains."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from riskmatch.divergence.checks import NonFiniteError, describe_nonfinite, is_small, is_traced
from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Places, Pool
from riskmatch.divergence.moments import mean_and_variance
from riskmatch.divergence.numpy_forms import ValueAndGrad

Match = Literal["worst", "variance"]
NonFinite = Literal["raise", "propagate"]


def matched_domains(
    risks: Tensor, groups: DomainIndex, match: Match, nonfinite: NonFinite
) -> Places | None:
    """The domains to match with the pool; None where a risk is not finite."""
    if is_traced(risks) or is_traced(groups.index):
        every = torch.arange(len(groups), device=risks.device)
        return groups.means(risks.detach()).argmax(0, keepdim=True) if match == "worst" else every
    values: Any = risks.detach()
    means = groups.means(values.numpy() if is_small(values) else values).tolist()
    if all(map(math.isfinite, means)) or bool(torch.isfinite(values).all()):
        return [means.index(max(means))] if match == "worst" else list(range(len(means)))
    if nonfinite == "propagate":
        return None
    faults = [
        f"{description} in domain {groups.name(place)}"
        for place in range(len(groups))
        if (description := describe_nonfinite(risks[groups.index == place]))
    ]
    raise NonFiniteError(
        f"Risks must be finite: {'; '.join(faults)} (of {len(risks)} risks). Check the inputs and "
        "the loss of these samples, or lower the learning rate."
    )


def penalty_to_pool(
    risks: Tensor, groups: DomainIndex, which: Places | None, pool: Pool, divergence: Divergence
) -> Tensor:
    """() the mean divergence of the domains ``which`` from the pool; NaN where they are None."""
    if which is None:
        return risks.sum() * torch.nan
    if isinstance(which, list) and len(groups) == 1:
        return (risks * 0).sum()
    _check_divergence(groups, which, divergence)
    return divergence.to_pool(risks, groups, which, pool)


def matched_variance(
    risks: Tensor, groups: DomainIndex, which: Places | None, pool: Pool
) -> Tensor:
    """() the variance of :func:`.mean_and_variance`; NaN where ``which`` is None."""
    if which is None:
        return risks.sum() * torch.nan
    _check_variance(groups, which)
    variance: Tensor = mean_and_variance(risks, groups, which, pool)[2]
    return variance


def known_terms(
    risks: Tensor,
    groups: DomainIndex,
    which: Places | None,
    pool: Pool,
    divergence: Divergence | None,
    with_variance: bool,
) -> dict[str, ValueAndGrad] | None:
    """Mean ``risk`` of the domains, penalty ``matching`` and ``variance``, if asked for, in NumPy.

    None where the risks are not few, or the gradient of the divergence is left to autograd.
    """
    if not isinstance(which, list) or len(groups) == 1 or not is_small(risks):
        return None
    values = risks.detach().numpy().astype(np.float64)
    if with_variance:
        _check_variance(groups, which)
    mean, weights, variance, slopes = mean_and_variance(
        values, groups, which if with_variance else [], pool
    )
    terms = {"risk": ValueAndGrad(float(mean), weights)}
    if divergence is not None:
        _check_divergence(groups, which, divergence)
        penalty = divergence.value_and_grad(values, groups, which, pool, risks.dtype)
        if penalty is None:
            return None
        terms["matching"] = penalty
    if with_variance:
        terms["variance"] = ValueAndGrad(float(variance), slopes)
    return terms


def _check_variance(groups: DomainIndex, which: Places) -> None:
    _check_sizes(groups, which, 2, "variance regularisation", "variance_weight=0")


def _check_divergence(groups: DomainIndex, which: Places, divergence: Divergence) -> None:
    cure = "a divergence that needs one alone, such as 'mmd'"
    _check_sizes(groups, which, divergence.min_samples, type(divergence).__name__, cure)


def _check_sizes(groups: DomainIndex, which: Places, least: int, purpose: str, cure: str) -> None:
    if least == 1 or isinstance(which, Tensor):
        return
    sizes = groups.sizes.tolist()
    place = min(which, key=sizes.__getitem__)
    if sizes[place] < least:
        raise ValueError(
            f"Domain {groups.name(place)} has {sizes[place]} sample in this batch, and {purpose} "
            f"needs {least} per domain. Take larger batches, or {cure}."
        )
