"""Risk distribution matching: the penalty, and the whole objective as a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from riskmatch import registry
from riskmatch.divergence import Divergence, Groups
from riskmatch.divergence.checks import (
    NonFiniteError,
    check_option,
    check_scalars,
    describe_nonfinite,
)
from riskmatch.divergence.divergence import at_least_float32

Match = Literal["worst", "variance"]


def risk_matching_penalty(
    risks: Tensor,
    domains: Tensor,
    *,
    match: Match = "worst",
    divergence: str | Divergence = "mmd",
) -> Tensor:
    r"""How far apart the risk distributions of the domains are.

    With :math:`\mathcal T_e` the risks of domain e, :math:`\mathcal T` those of all samples, w the
    domain of the largest mean risk and D a divergence (squared MMD by default):

    .. math:: \texttt{worst: } D(\mathcal T_w, \mathcal T) \qquad
              \texttt{variance: } \frac1m \sum_{e=1}^m D(\mathcal T_e, \mathcal T)

    the paper's :math:`\hat{\mathcal L}` and :math:`\mathcal L`. Domains may differ in size and
    their labels may come in any order. A batch with a single domain has penalty 0.

    Args:
        risks: (n,) the loss of each sample, from any per-sample loss (``reduction="none"``).
        domains: (n,) integer labels.
        match: ``"worst"`` or ``"variance"``.
        divergence: ``"mmd"``, ``"moments"``, ``"energy"``, ``"wasserstein-1"``,
            ``"wasserstein-2"``, or a :class:`~riskmatch.divergence.Divergence`.

    Returns:
        () differentiable in ``risks``.

    Example:
        >>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4])
        >>> domains = torch.tensor([0, 0, 1, 1])
        >>> risk_matching_penalty(risks, domains, divergence="moments")
        tensor(0.3133)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024.
    """
    return _Matched(risks, domains, match).penalty(_resolve(divergence))


@dataclass(frozen=True)
class Matching:
    """The objective of a batch and its parts."""

    loss: Tensor
    """() what to call ``backward`` on."""
    risk: Tensor
    """() the mean of the domain risks."""
    penalty: Tensor
    """() the divergence of the risk distributions, without its weight."""
    variance: Tensor
    """() the variance that is regularised, without its weight; 0 where its weight is 0."""
    domains: Tensor
    """(m,) the labels of the domains in the batch, ascending."""
    domain_risks: Tensor
    """(m,) the mean risk of each of them."""
    worst: int
    """The label of the domain with the largest mean risk."""


class RiskMatching(nn.Module):
    r"""The objective of RDM on a batch of risks, for any training loop.

    .. math:: \frac1m \sum_e \bar R_e + \lambda\, P
              + \beta\,\bigl(\mathbb V(\mathcal T) + \mathbb V(\mathcal T_w)\bigr)

    with P the :func:`risk_matching_penalty`. Under ``match="variance"`` the last variance is the
    mean over all domains. The released code divides the whole by λ where λ > 1, which keeps the
    size of the gradient; ``rescale=True`` does so.

    Args:
        weight: λ, of the penalty. At 0 the penalty is not computed.
        match: ``"worst"`` or ``"variance"``.
        divergence: a name or a divergence, as for :func:`risk_matching_penalty`.
        variance_weight: β, of the variance regularisation.
        rescale: divide the loss by λ where λ > 1.

    Example:
        >>> criterion = RiskMatching(weight=5.0)
        >>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
        >>> out = criterion(risks, torch.tensor([0, 0, 1, 1]))
        >>> out.loss.backward()
        >>> out.worst
        1

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024.
    """

    def __init__(
        self,
        weight: float = 1.0,
        match: Match = "worst",
        divergence: str | Divergence = "mmd",
        variance_weight: float = 0.0,
        rescale: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("weight", weight), ("variance_weight", variance_weight)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number ≥ 0, got {value!r}.")
        check_option("match", match, get_args(Match))
        self.weight = weight
        self.match: Match = match
        self.divergence = _resolve(divergence)
        self.variance_weight = variance_weight
        self.rescale = rescale

    def forward(self, risks: Tensor, domains: Tensor) -> Matching:
        """The objective of ``risks`` (n,) with integer labels ``domains`` (n,)."""
        batch = _Matched(risks, domains, self.match)
        risk = batch.domain_risks.mean()
        zero = risk.new_zeros(())
        penalty = batch.penalty(self.divergence) if self.weight else zero
        variance = batch.variance() if self.variance_weight else zero
        loss = risk + self.weight * penalty + self.variance_weight * variance
        if self.rescale and self.weight > 1:
            loss = loss / self.weight
        return Matching(
            loss=loss,
            risk=risk,
            penalty=penalty,
            variance=variance,
            domains=batch.groups.labels,
            domain_risks=batch.domain_risks,
            worst=int(batch.groups.labels[batch.worst]),
        )

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        return (
            f"weight={self.weight:g}, match={self.match!r}, divergence={self.divergence}, "
            f"variance_weight={self.variance_weight:g}, rescale={self.rescale}"
        )


class _Matched:
    """A checked batch of risks, grouped by domain, and the domains to match with the pool."""

    def __init__(self, risks: Tensor, domains: Tensor, match: Match) -> None:
        check_option("match", match, get_args(Match))
        check_scalars("risks", risks)
        _check_labels(domains, risks)
        self.risks = risks
        self.groups = Groups.of(domains)
        _check_finite(risks, self.groups)
        self.domain_risks = self.groups.means(at_least_float32(risks))
        self.worst = self.domain_risks.detach().argmax()
        everyone = torch.arange(len(self.groups), device=risks.device)
        self.which = self.worst[None] if match == "worst" else everyone

    def penalty(self, divergence: Divergence) -> Tensor:
        """() the mean divergence of the matched domains from the pool."""
        if len(self.groups) == 1:
            return (at_least_float32(self.risks) * 0).sum()
        self._check_sizes(divergence.min_samples, type(divergence).__name__)
        return divergence.to_pool(at_least_float32(self.risks), self.groups, self.which)

    def variance(self) -> Tensor:
        """() the variance of the pool plus the mean variance of the matched domains."""
        self._check_sizes(2, "variance regularisation")
        risks = at_least_float32(self.risks)
        parts = [risks[self.groups.index == group].var() for group in self.which]
        return risks.var() + torch.stack(parts).mean()

    def _check_sizes(self, least: int, purpose: str) -> None:
        if least == 1:
            return
        sizes = self.groups.sizes[self.which]
        if bool((sizes < least).any()):
            label = int(self.groups.labels[self.which[sizes.argmin()]])
            raise ValueError(
                f"Domain {label} has {int(sizes.min())} sample in this batch, and {purpose} needs "
                f"{least} per domain to estimate a variance. Take larger batches, or a divergence "
                "that needs no variance, such as 'mmd'."
            )


def _resolve(divergence: str | Divergence) -> Divergence:
    if isinstance(divergence, Divergence):
        return divergence
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence must be a name or a riskmatch.divergence.Divergence, got {divergence!r}."
        )
    made = registry.find("divergence", divergence).value()
    if not isinstance(made, Divergence):
        raise TypeError(f"{divergence} must make a riskmatch.divergence.Divergence, got {made!r}.")
    return made


def _check_labels(domains: Tensor, risks: Tensor) -> None:
    if not isinstance(domains, Tensor):
        raise TypeError(
            f"domains must be a torch.Tensor of integers, got {type(domains).__name__}; "
            "use torch.tensor(...)."
        )
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


def _check_finite(risks: Tensor, groups: Groups) -> None:
    if bool(torch.isfinite(risks).all()):
        return
    found = []
    for group, label in enumerate(groups.labels.tolist()):
        if description := describe_nonfinite(risks[groups.index == group]):
            found.append(f"{description} in domain {label}")
    raise NonFiniteError(
        f"Risks must be finite: {'; '.join(found)} (of {len(risks)} risks). Check the inputs and "
        "the loss of these samples, or lower the learning rate."
    )
