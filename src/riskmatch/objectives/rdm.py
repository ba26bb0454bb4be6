"""Risk distribution matching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.divergence import MMD, Divergence, DomainIndex, Match, Pool, RBFMixture
from riskmatch.matching import RiskMatching
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, LogUniform, Tuned, Uniform, tuned

_LARGE = ("terraincognita", "domainnet")
_NO_VARIANCE = dict.fromkeys(("officehome", *_LARGE), Tuned(0.0, Choice((0.0,))))
_SMALLER_BATCHES = dict.fromkeys(_LARGE, Tuned(40, Uniform(30, 60, integer=True)))
_SMALLER_WEIGHT = Tuned(0.5, Uniform(0.1, 1.0))
_WARMUP = Uniform(800, 2700, integer=True)
_LONGER_WARMUP = Tuned(2400, Uniform(1500, 3000, integer=True))


@dataclass(frozen=True)
class RDM(Objective):
    r"""Match the risks of the worst domain (or of every domain) with the pooled risks.

    .. math:: \frac1m \sum_e \bar R_e + \lambda\, D(\mathcal T_w, \mathcal T)
              + \beta\,\bigl(\mathbb V(\mathcal T) + \mathbb V(\mathcal T_w)\bigr)

    with w the domain of the largest mean risk and T the pool: the paper's L̂. ``match="variance"``
    takes the mean of D over all domains, its L. Before ``warmup`` the method is ERM; then a fresh
    optimiser starts at ``lr_after``. Ranges: the supplement's table of hyper-parameters.
    """

    weight: float = tuned(
        5.0, Uniform(0.1, 10.0), NOT_NEGATIVE, domainbed="rdm_lambda", domainnet=_SMALLER_WEIGHT
    )
    """λ, of the matching penalty."""
    warmup: int = tuned(
        1500,
        _WARMUP,
        NOT_NEGATIVE,
        domainbed="rdm_penalty_anneal_iters",
        domainnet=_LONGER_WARMUP,
    )
    """Steps of ERM before the penalty is switched on."""
    lr_after: float = tuned(1.5e-5, Uniform(8e-6, 2e-5), POSITIVE, domainbed="rdm_lr")
    """Learning rate after the warm-up."""
    variance_weight: float = tuned(
        0.004,
        Uniform(0.001, 0.007),
        NOT_NEGATIVE,
        domainbed="variance_weight",
        **_NO_VARIANCE,
    )
    """β, of the variance regularisation."""
    match: Match = "worst"
    """Which distributions meet the pool: the worst domain's, or every domain's."""
    divergence: str | Divergence = "mmd"
    """D: mmd, moments, energy, wasserstein-1, wasserstein-2, or your own as package.module:Name."""
    kernel: Literal["authors-code", "paper"] = "authors-code"
    """Kernels of the divergence mmd; the published λ belong to the released code's."""
    rescale: bool = False
    """Divide the loss by λ where λ > 1, as the released code does on ColoredMNIST."""
    pool: Pool = "domains"
    """What weighs the same in the pool: every domain, as in the paper, or every sample."""

    title = "RDM"
    idea = "risks"
    variants = ("match", "divergence")
    variant_titles: ClassVar[Mapping[str, str]] = {
        "moments": "RDM (two moments)",
        "variance": "RDM (every domain, L)",
        "variance moments": "RDM (every domain, two moments)",
    }
    domainbed: ClassVar[Mapping[str, Mapping[str, str]]] = {"RDM": {}, "DGPM2": {}}
    citation = "Nguyen et al., Domain Generalisation via Risk Distribution Matching, WACV 2024"
    training: ClassVar[Mapping[str, Tuned]] = {
        "lr": Tuned(5e-5, LogUniform(-4.5, -4)),
        "batch_size": Tuned(88, Uniform(70, 100, integer=True), _SMALLER_BATCHES),
        "weight_decay": Tuned(0.0, LogUniform(-8, -5)),
        "dropout": Tuned(0.0, Choice((0.0, 0.003, 0.03))),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.criterion  # refuses wrong values here, before any data is loaded

    @cached_property
    def criterion(self) -> RiskMatching:
        """The criterion with these hyper-parameters."""
        kernel = RBFMixture.paper() if self.kernel == "paper" else RBFMixture.authors_code()
        distance = MMD(kernel) if self.divergence == "mmd" else self.divergence
        settings = self.match, distance, self.variance_weight, self.rescale, self.pool
        return RiskMatching(self.weight, *settings)

    @property
    def min_samples(self) -> int:
        """Two where a variance is estimated."""
        return 2 if self.variance_weight else self.criterion.divergence.min_samples

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser at ``lr_after`` once the warm-up is over."""
        return base.after_warmup(step, self.warmup, lr=self.lr_after)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if memory.step < self.warmup:
            return Terms({"risk": ev.risk})
        return self.criterion.terms(ev.risks, DomainIndex.in_order(ev.batch.sizes, ev.risks.device))
