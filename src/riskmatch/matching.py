"""Risk distribution matching: the penalty, and the whole objective as a module."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from riskmatch.distributed import average_over_processes, gather_risks
from riskmatch.divergence import Divergence, DomainIndex, Pool, resolve_divergence
from riskmatch.divergence.checks import at_least_float32, check_option, check_scalars
from riskmatch.divergence.matched import Match, MatchedRisks, NonFinite, matched_domains
from riskmatch.terms import KnownTerms, Terms, total

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Domains = Tensor | Sequence[int] | Sequence[str] | DomainIndex
_MATCHES, _POOLS, _NONFINITE = get_args(Match), get_args(Pool), get_args(NonFinite)


def risk_matching_penalty(
    risks: Tensor,
    domains: Domains,
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
            domain, or ``"propagate"`` NaN, so that a gradient scaler can skip the step. On a GPU
            the check travels to the host with the labels; where ``domains`` is a
            :class:`~riskmatch.divergence.DomainIndex` nothing is waited for, and NaN propagates.

    Returns:
        () differentiable in ``risks``.

    Example:
        >>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4])
        >>> risk_matching_penalty(risks, ["a", "a", "b", "b"], divergence="moments")
        tensor(0.3133)

    Reference: Nguyen et al., *Domain Generalisation via Risk Distribution Matching*, WACV 2024.
    """
    _check_options(match, pool, nonfinite)
    distance = resolve_divergence(divergence)
    check_scalars("risks", risks)
    groups = DomainIndex.of_risks(risks, domains, nonfinite == "raise")
    risks = at_least_float32(risks)
    which = matched_domains(risks, groups, match, nonfinite)
    return MatchedRisks(risks, groups, pool, which).penalty(distance)


@dataclass(frozen=True)
class Matching:
    """The objective of a batch and its parts."""

    parts: Mapping[str, Tensor]
    """The terms of the loss with their weights: ``risk``, ``matching`` and ``variance``. A term of
    weight 0 is left out."""
    risk: Tensor
    """() the mean of the domain risks."""
    penalty: Tensor
    """() the divergence of the risk distributions, without its weight."""
    variance: Tensor
    """() the variance that is regularised, without its weight; 0 where its weight is 0."""
    risks: Tensor
    """(n,) the risks of the batch; those of all processes where they are gathered."""
    groups: DomainIndex
    """The domains of these risks."""

    @property
    def loss(self) -> Tensor:
        """() what to call ``backward`` on."""
        first, *others = self.parts.values()
        return sum(others, start=first)

    @property
    def domains(self) -> Tensor | tuple[str, ...]:
        """(m,) the labels of the domains in the batch, ascending."""
        return self.groups.names or self.groups.labels

    @property
    def domain_risks(self) -> Tensor:
        """(m,) the mean risk of each of them."""
        means: Tensor = self.groups.means(self.risks)
        return means

    @property
    def worst(self) -> Tensor:
        """() the label of the domain with the largest mean risk; its place if labels are text."""
        place = self.domain_risks.detach().argmax(0, keepdim=True)
        return self.groups.labels.index_select(0, place).squeeze(0)

    @property
    def worst_domain(self) -> int | str:
        """The label of the domain with the largest mean risk, as a Python value."""
        place = int(self.worst)
        return self.groups.names[place] if self.groups.names else place


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
        self.divergence = resolve_divergence(divergence)
        self.variance_weight = variance_weight
        self.rescale = rescale
        self.pool: Pool = pool
        self.nonfinite: NonFinite = nonfinite
        self.group = group

    if TYPE_CHECKING:

        def __call__(self, risks: Tensor, domains: Domains) -> Matching:
            """The type that ``nn.Module`` hides from type checkers."""

    def forward(self, risks: Tensor, domains: Domains) -> Matching:
        """The objective of ``risks`` (n,) of samples from ``domains`` (n,)."""
        if self.group is None:
            _warn_of_processes()
        else:
            labels, risks = _integers(domains), average_over_processes(risks, self.group)
            risks, domains = gather_risks(risks, labels, self.group)
        check_scalars("risks", risks)
        groups = DomainIndex.of_risks(risks, domains, self.nonfinite == "raise")
        risks = at_least_float32(risks)
        terms = self._by_autograd(self._matched(risks, groups))
        zero = risks.new_zeros(())
        return Matching(
            parts=self._weighted(terms),
            risk=terms["risk"],
            penalty=terms.get("matching", zero),
            variance=terms.get("variance", zero),
            risks=risks,
            groups=groups,
        )

    def terms(self, risks: Tensor, groups: DomainIndex) -> Terms:
        """The terms of a step on grouped risks; of few, the gradient is computed at once."""
        matched = self._matched(at_least_float32(risks), groups)
        divergence = self.divergence if self.weight else None
        known = matched.known(divergence, with_variance=self.variance_weight > 0)
        if known is None:
            terms = self._by_autograd(matched)
            return Terms(self._weighted(terms), _raw(terms))
        values = {name: term.value for name, term in known.items()}
        gradients = {name: term.gradient for name, term in known.items()}
        return KnownTerms(
            _tensors(self._weighted(values)),
            _tensors(_raw(values)),
            risks=matched.risks,
            gradient=torch.from_numpy(total(self._weighted(gradients))),
            by_autograd=lambda: self._weighted(self._by_autograd(matched)),
        )

    def _matched(self, risks: Tensor, groups: DomainIndex) -> MatchedRisks:
        which = matched_domains(risks, groups, self.match, self.nonfinite)
        return MatchedRisks(risks, groups, self.pool, which)

    def _by_autograd(self, matched: MatchedRisks) -> dict[str, Tensor]:
        """The terms without their weights; those of weight 0 are left out."""
        terms = {"risk": matched.groups.means(matched.risks).mean()}
        if self.weight:
            terms["matching"] = matched.penalty(self.divergence)
        if self.variance_weight:
            terms["variance"] = matched.variance()
        return terms

    def _weighted(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        """Terms times their weights."""
        scale = 1 / self.weight if self.rescale and self.weight > 1 else 1.0
        weights = {"risk": 1.0, "matching": self.weight, "variance": self.variance_weight}
        return {name: scale * weights[name] * term for name, term in terms.items()}

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        return (
            f"weight={self.weight:g}, match={self.match!r}, divergence={self.divergence}, "
            f"variance_weight={self.variance_weight:g}, rescale={self.rescale}, pool={self.pool!r}"
        )


def _raw(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Terms to log without their weights."""
    return {name: term for name, term in terms.items() if name == "matching"}


def _tensors(values: Mapping[str, float]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.asarray(value)) for name, value in values.items()}


def _check_options(match: str, pool: str, nonfinite: str) -> None:
    check_option("match", match, _MATCHES)
    check_option("pool", pool, _POOLS)
    check_option("nonfinite", nonfinite, _NONFINITE)


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
