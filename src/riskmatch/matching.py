"""Risk distribution matching: the penalty, and the whole objective as a module."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from riskmatch import registry
from riskmatch.distributed import average_over_processes, gather_risks
from riskmatch.divergence import MMD, Divergence, DomainIndex, Pool
from riskmatch.divergence.checks import at_least_float32, check_option, check_scalars
from riskmatch.divergence.matched import (
    Match,
    NonFinite,
    known_terms,
    matched_domains,
    matched_variance,
    penalty_to_pool,
)
from riskmatch.divergence.numpy_forms import ValueAndGrad
from riskmatch.terms import Terms

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
    distance = _resolve(divergence)
    check_scalars("risks", risks)
    groups = DomainIndex.of_risks(risks, domains)
    risks = at_least_float32(risks)
    which = matched_domains(risks, groups, match, nonfinite)
    return penalty_to_pool(risks, groups, which, pool, distance)


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
    domains: Tensor | tuple[str, ...]
    """(m,) the labels of the domains in the batch, ascending."""
    domain_risks: Tensor
    """(m,) the mean risk of each of them."""
    worst: Tensor
    """() the label of the domain with the largest mean risk; its place where labels are strings."""

    @property
    def loss(self) -> Tensor:
        """() what to call ``backward`` on."""
        first, *others = self.parts.values()
        return sum(others, start=first)

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
            labels = _integers(domains)
            risks = average_over_processes(risks, self.group)
            risks, domains = gather_risks(risks, labels, self.group)
        check_scalars("risks", risks)
        return self.compute(risks, DomainIndex.of_risks(risks, domains))

    def compute(self, risks: Tensor, groups: DomainIndex) -> Matching:
        """The objective of risks (n,) that are grouped and, over processes, gathered already."""
        risks = at_least_float32(risks)
        which = matched_domains(risks, groups, self.match, self.nonfinite)
        domain_risks = groups.means(risks)
        risk, worst = domain_risks.mean(), domain_risks.detach().argmax(0, keepdim=True)
        penalty = variance = risk.new_zeros(())
        if self.weight:
            penalty = penalty_to_pool(risks, groups, which, self.pool, self.divergence)
        if self.variance_weight:
            variance = matched_variance(risks, groups, which, self.pool)
        terms = {"risk": risk, "matching": penalty, "variance": variance}
        return Matching(
            parts={name: factor * terms[name] for name, factor in self.factors.items()},
            risk=risk,
            penalty=penalty,
            variance=variance,
            domains=groups.names or groups.labels,
            domain_risks=domain_risks,
            worst=groups.labels.index_select(0, worst).squeeze(0),
        )

    def terms(self, risks: Tensor, groups: DomainIndex) -> Terms:
        """The terms of a step: those of :meth:`compute`, sooner where risks are few."""
        risks = at_least_float32(risks)
        which = matched_domains(risks, groups, self.match, self.nonfinite)
        divergence = self.divergence if self.weight else None
        known = known_terms(
            risks, groups, which, self.pool, divergence, with_variance=self.variance_weight > 0
        )
        if known is not None:
            return _KnownTerms(self, risks, groups, known)
        matching = self.compute(risks, groups)
        return Terms(matching.parts, {"matching": matching.penalty} if self.weight else {})

    @property
    def factors(self) -> dict[str, float]:
        """The weights of the terms, except 0."""
        scale = 1 / self.weight if self.rescale and self.weight > 1 else 1.0
        weights = {"risk": 1.0, "matching": self.weight, "variance": self.variance_weight}
        return {name: scale * weight for name, weight in weights.items() if weight}

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        return (
            f"weight={self.weight:g}, match={self.match!r}, divergence={self.divergence}, "
            f"variance_weight={self.variance_weight:g}, rescale={self.rescale}, pool={self.pool!r}"
        )


class _KnownTerms(Terms):
    """Terms of few risks with their gradients: backward starts at the risks, without a graph."""

    _criterion: RiskMatching
    _risks: Tensor
    _groups: DomainIndex
    _known: Mapping[str, ValueAndGrad]
    _factors: Mapping[str, float]

    def __init__(
        self,
        criterion: RiskMatching,
        risks: Tensor,
        groups: DomainIndex,
        known: Mapping[str, ValueAndGrad],
    ) -> None:
        self.__dict__.update(_criterion=criterion, _risks=risks, _groups=groups, _known=known)
        self.__dict__["_factors"] = criterion.factors

    @cached_property
    def parts(self) -> Mapping[str, Tensor]:
        """Their sum is the loss."""
        return self._criterion.compute(self._risks, self._groups).parts

    @cached_property
    def raw(self) -> Mapping[str, Tensor]:
        """The penalty without its weight."""
        if "matching" not in self._known:
            return {}
        return {"matching": torch.from_numpy(np.asarray(self._known["matching"].value))}

    def values(self) -> dict[str, float]:
        """Values of the parts."""
        return {name: self._factors[name] * term.value for name, term in self._known.items()}

    def backward(self) -> None:
        """Add the gradient of the loss to the weights."""
        first, *others = (self._factors[name] * term.gradient for name, term in self._known.items())
        gradient = torch.from_numpy(sum(others, start=first))
        self._risks.backward(gradient.to(self._risks.dtype))


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
