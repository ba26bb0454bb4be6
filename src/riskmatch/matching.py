"""Risk distribution matching: the penalty, and the whole objective as a module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from riskmatch import registry
from riskmatch.distributed import average_over_processes, gather_risks
from riskmatch.divergence import MMD, Divergence, Groups, Pool, few, risk_variance
from riskmatch.divergence.checks import (
    NonFiniteError,
    all_finite,
    check_option,
    check_scalars,
    describe_nonfinite,
    is_traced,
)
from riskmatch.divergence.divergence import at_least_float32
from riskmatch.divergence.forms import order_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Match = Literal["worst", "variance"]
NonFinite = Literal["raise", "propagate"]
_MMD = MMD()
_MATCHES, _POOLS, _NONFINITE = get_args(Match), get_args(Pool), get_args(NonFinite)


def risk_matching_penalty(
    risks: Tensor,
    domains: Tensor | Sequence[int] | Sequence[str] | Groups,
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
            self, risks: Tensor, domains: Tensor | Sequence[int] | Sequence[str] | Groups
        ) -> Matching:
            """The type that ``nn.Module`` hides from type checkers."""

    def forward(
        self, risks: Tensor, domains: Tensor | Sequence[int] | Sequence[str] | Groups
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
        if isinstance(domains, Groups):
            self.groups = domains
        else:
            labels, self.names = _labels(domains, risks)
            self.groups = Groups.of(labels)
        self.risks = at_least_float32(risks)
        self.match: Match = match
        self.pool: Pool = pool
        self._few: few.FewSamples | None = None
        if few.is_few(risks) and not is_traced(self.groups.index):
            values = few.as_array(self.risks)
            self._few = few.FewSamples(values, self.groups.arrays, order_of(risks))
            self.finite = math.isfinite(values.sum()) or bool(np.isfinite(values).all())
        else:
            self.finite = all_finite(risks)
        if not self.finite and nonfinite == "raise":
            raise _nonfinite(risks, self.groups, self.names)

    @property
    def worst(self) -> Tensor:
        """() the place of the domain with the largest mean risk."""
        if self._few is not None:
            return torch.from_numpy(np.asarray(self._few.worst))
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
        if not is_traced(self.groups.sizes) and len(self.groups) == 1:
            return (self.risks * 0).sum()
        self._check_sizes(divergence.min_samples, type(divergence).__name__)
        known = self._few_penalty(divergence)
        if known is not None:
            return few.differentiable(self.risks, known)
        return divergence.to_pool(self.risks, self.groups, self.which, self.pool)

    def variance(self) -> Tensor:
        """() the variance of the pool plus the mean variance of the matched domains."""
        if not self.finite:
            return self.risks.sum() * torch.nan
        self._check_sizes(2, "variance regularisation")
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
        if self._few is None or not self.finite or len(self.groups) == 1:
            return None
        values, groups, _ = self._few
        terms, raw = {"risk": groups.mean_of_means(values)}, {}
        if factors["matching"]:
            self._check_sizes(divergence.min_samples, type(divergence).__name__)
            penalty = self._few_penalty(divergence)
            if penalty is None:
                return None
            terms["matching"], raw["matching"] = penalty, few.as_tensor(penalty.value, self.risks)
        if factors["variance"]:
            self._check_sizes(2, "variance regularisation")
            terms["variance"] = groups.variance(values, self.pool, self._few_group)
        return {name: term.times(factors[name]) for name, term in terms.items()}, raw

    def _few_penalty(self, divergence: Divergence) -> few.Known | None:
        if self._few is None:
            return None
        return divergence.few_to_pool(self._few, self._few_group, self.pool)

    @property
    def _few_group(self) -> int | None:
        """Of few risks: the domain to match with the pool; None for all."""
        assert self._few is not None
        return self._few.worst if self.match == "worst" else None

    def _check_sizes(self, least: int, purpose: str) -> None:
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
                f"{least} per domain to estimate a variance. Take larger batches, or a divergence "
                "that needs no variance, such as 'mmd'."
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


def _integers(domains: Any) -> Tensor:
    """Labels that mean the same on every process."""
    if isinstance(domains, Groups):
        return domains.labels[domains.index]
    if not isinstance(domains, Tensor) or domains.is_floating_point():
        raise TypeError("With a process group, domains must be a tensor of integer labels.")
    return domains


def _nonfinite(risks: Tensor, groups: Groups, names: tuple[str, ...]) -> NonFiniteError:
    found = []
    for group, label in enumerate(groups.labels.tolist()):
        if description := describe_nonfinite(risks[groups.index == group]):
            found.append(f"{description} in domain {names[label] if names else label}")
    return NonFiniteError(
        f"Risks must be finite: {'; '.join(found)} (of {len(risks)} risks). Check the inputs and "
        "the loss of these samples, or lower the learning rate."
    )


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
