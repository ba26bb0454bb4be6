"""Risk distribution matching: the penalty, and the whole objective as a module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from riskmatch import registry
from riskmatch.distributed import average_over_processes, gather_risks
from riskmatch.divergence import MMD, Divergence, DomainIndex, Pool
from riskmatch.divergence.checks import check_option
from riskmatch.divergence.matched import Match, MatchedRisks, NonFinite

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_MMD = MMD()
_MATCHES, _POOLS, _NONFINITE = get_args(Match), get_args(Pool), get_args(NonFinite)


def risk_matching_penalty(
    risks: Tensor,
    domains: Tensor | Sequence[int] | Sequence[str] | DomainIndex,
    *,
    match: Match = "worst",
    divergence: str | Divergence = "mmd",
    pool: Pool = "domains",
    nonfinite: NonFinite = "raise",
) -> Tensor:
    r"""Distance between the risk distributions of the domains of a batch.

    With :math:`\mathcal T_e` the risks of domain e, their pool
    :math:`\mathcal T = \frac1m \sum_e \mathcal T_e`, w the domain of the largest mean risk and D a
    divergence (squared MMD by default):

    .. math:: \texttt{worst: } D(\mathcal T_w, \mathcal T) \qquad
              \texttt{variance: } \frac1m \sum_{e=1}^m D(\mathcal T_e, \mathcal T)

    the paper's :math:`\hat{\mathcal L}` and :math:`\mathcal L`. Domains may differ in size and
    their labels may come in any order. A batch with a single domain has penalty 0.

    Args:
        risks: (n,) the loss of each sample, from any per-sample loss (``reduction="none"``).
        domains: (n,) the domain of each sample: integers of any type or strings, as a tensor, a
            list, a NumPy array or a pandas column.
        match: ``"worst"`` or ``"variance"``.
        divergence: ``"mmd"``, ``"moments"``, ``"energy"``, ``"wasserstein-1"``,
            ``"wasserstein-2"``, ``"package.module:Name"``, or a
            :class:`~riskmatch.divergence.Divergence`.
        pool: ``"domains"`` gives every domain the same weight in the pool, as the paper does;
            ``"samples"`` gives every sample the same weight, so large domains count more. The two
            are equal where domains have equal sizes.
        nonfinite: what to do where a risk is NaN or infinite: ``"raise"`` an error that names the
            domain, or ``"propagate"`` NaN, so that a gradient scaler can skip the step.

    Returns:
        () differentiable in ``risks``.

    Example:
        >>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4])
        >>> risk_matching_penalty(risks, ["a", "a", "b", "b"], divergence="moments")
        tensor(0.3133)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024.
    """
    _check_options(match, pool, nonfinite)
    return MatchedRisks(risks, domains, match, pool, nonfinite).penalty(_resolve(divergence))


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
    domains: Tensor | tuple[str, ...]
    """(m,) the labels of the domains in the batch, ascending."""
    domain_risks: Tensor
    """(m,) the mean risk of each of them."""
    worst: Tensor
    """() the label of the domain with the largest mean risk; its place where labels are strings."""

    @property
    def worst_domain(self) -> int | str:
        """The label of the domain with the largest mean risk, as a Python value."""
        place = int(self.worst)
        return self.domains[place] if isinstance(self.domains, tuple) else place


class RiskMatching(nn.Module):
    r"""The objective of RDM on a batch of risks, for any training loop.

    .. math:: \frac1m \sum_e \bar R_e + \lambda\, P
              + \beta\,\bigl(\mathbb V(\mathcal T) + \mathbb V(\mathcal T_w)\bigr)

    with P the :func:`risk_matching_penalty`. Under ``match="variance"`` the last variance is the
    mean over all domains. The released code divides the whole by λ where λ > 1, which keeps the
    size of the gradient; ``rescale=True`` does so.

    .. warning::
        **The whole batch at once.** The penalty compares the risks of *one call*. Called on the
        micro-batches of an accumulated step it matches only within each micro-batch. In
        data-parallel training without ``group`` each process matches only its own share: with one
        domain per process the penalty is always zero. That is warned about once.

    Args:
        weight: λ, of the penalty. At 0 the penalty is not computed.
        match: ``"worst"`` or ``"variance"``.
        divergence: a name or a divergence, as for :func:`risk_matching_penalty`.
        variance_weight: β, of the variance regularisation.
        rescale: divide the loss by λ where λ > 1.
        pool: ``"domains"`` or ``"samples"``, as for :func:`risk_matching_penalty`.
        nonfinite: ``"raise"`` or ``"propagate"``, as for :func:`risk_matching_penalty`.
        group: in data-parallel training, the processes whose samples make up the batch:
            ``"world"``, or a process group. Risks and integer labels are gathered (one float and
            one integer per sample), all values are those of the global batch, and the gradients
            that DistributedDataParallel averages are exactly those of one process with that batch.
            Where torch has no process group, ``"world"`` is this process alone.

    Example:
        >>> criterion = RiskMatching(weight=5.0)
        >>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
        >>> out = criterion(risks, ["calm", "calm", "stormy", "stormy"])
        >>> out.loss.backward()
        >>> out.worst_domain
        'stormy'

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024.
    """

    def __init__(
        self,
        weight: float = 1.0,
        match: Match = "worst",
        divergence: str | Divergence = "mmd",
        variance_weight: float = 0.0,
        rescale: bool = False,
        pool: Pool = "domains",
        nonfinite: NonFinite = "raise",
        group: ProcessGroup | Literal["world"] | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("weight", weight), ("variance_weight", variance_weight)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number ≥ 0, got {value!r}.")
        _check_options(match, pool, nonfinite)
        self.weight = weight
        self.match: Match = match
        self.divergence = _resolve(divergence)
        self.variance_weight = variance_weight
        self.rescale = rescale
        self.pool: Pool = pool
        self.nonfinite: NonFinite = nonfinite
        self.group = group

    if TYPE_CHECKING:

        def __call__(
            self, risks: Tensor, domains: Tensor | Sequence[int] | Sequence[str] | DomainIndex
        ) -> Matching:
            """The type that ``nn.Module`` hides from type checkers."""

    def forward(
        self, risks: Tensor, domains: Tensor | Sequence[int] | Sequence[str] | DomainIndex
    ) -> Matching:
        """The objective of ``risks`` (n,) of samples from ``domains`` (n,)."""
        if self.group is None:
            _warn_of_processes()
        else:
            risks, domains = gather_risks(risks, _integers(domains), self.group)
        batch = MatchedRisks(risks, domains, self.match, self.pool, self.nonfinite)
        domain_risks = batch.domain_risks()
        risk = domain_risks.mean()
        zero = risk.new_zeros(())
        penalty = batch.penalty(self.divergence) if self.weight else zero
        variance = batch.variance() if self.variance_weight else zero
        loss = risk + self.weight * penalty + self.variance_weight * variance
        if self.rescale and self.weight > 1:
            loss = loss / self.weight
        if self.group is not None:
            loss = average_over_processes(loss, self.group)
        return Matching(
            loss=loss,
            risk=risk,
            penalty=penalty,
            variance=variance,
            domains=batch.names or batch.groups.labels,
            domain_risks=domain_risks,
            worst=batch.groups.labels.index_select(0, batch.worst.reshape(1)).squeeze(0),
        )

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        return (
            f"weight={self.weight:g}, match={self.match!r}, divergence={self.divergence}, "
            f"variance_weight={self.variance_weight:g}, rescale={self.rescale}, pool={self.pool!r}"
        )


def _check_options(match: str, pool: str, nonfinite: str) -> None:
    check_option("match", match, _MATCHES)
    check_option("pool", pool, _POOLS)
    check_option("nonfinite", nonfinite, _NONFINITE)


def _resolve(divergence: str | Divergence) -> Divergence:
    if isinstance(divergence, Divergence):
        return divergence
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence must be a name or a riskmatch.divergence.Divergence, got {divergence!r}."
        )
    if divergence == "mmd":
        return _MMD
    made = registry.find("divergence", divergence).value()
    if not isinstance(made, Divergence):
        raise TypeError(f"{divergence} must make a riskmatch.divergence.Divergence, got {made!r}.")
    return made


def _integers(domains: Any) -> Tensor:
    """Labels that mean the same on every process."""
    if isinstance(domains, DomainIndex):
        return domains.labels[domains.index]
    if not isinstance(domains, Tensor) or domains.is_floating_point():
        raise TypeError("With a process group, domains must be a tensor of integer labels.")
    return domains


def _warn_of_processes() -> None:
    if torch.compiler.is_compiling() or not torch.distributed.is_available():
        return
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        warnings.warn(
            "RiskMatching runs in a process group of several processes and sees only the risks of "
            "this one: each process matches its own share of the batch. Set group='world' to match "
            "the batch of all processes.",
            stacklevel=3,
        )
