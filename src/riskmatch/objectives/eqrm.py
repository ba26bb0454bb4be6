"""Empirical quantile risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms
from riskmatch.divergence import kde_quantile, kde_tail_quantile
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Interval, LogUniform, Uniform, bounded, tuned


@dataclass(frozen=True)
class EQRM(Objective):
    r"""Minimise a high quantile of the distribution of the domain risks.

    .. math:: \hat F^{-1}(\alpha), \qquad
              \hat F(v) = \frac1m \sum_e \Phi\!\left(\frac{v - \bar R_e}{h}\right)

    a kernel density estimate with bandwidth h = 1.06 σ̂ m^(−1/5). Where ``log_tail`` is set the
    level is so close to 1 that the quantile is its asymptote, mean + h·√(−2 log(1 − α)). Before
    ``warmup`` the method is ERM; then a fresh optimiser starts at ``lr_after``.
    """

    quantile: float = tuned(
        0.75, Uniform(0.5, 0.99), Interval(0, 1, "neither"), domainbed="eqrm_quantile"
    )
    """α, the level of the quantile."""
    warmup: int = tuned(
        2500, LogUniform(2.5, 3.5, integer=True), NOT_NEGATIVE, domainbed="eqrm_burnin_iters"
    )
    """Steps of ERM before the quantile takes over."""
    lr_after: float = tuned(1e-6, LogUniform(-7, -5), POSITIVE, domainbed="eqrm_lr")
    """Learning rate after the warm-up."""
    log_tail: float | None = bounded(None, Interval(high=0, closed="neither"))
    """log(1 − α) of an extreme level, for example −1000; replaces ``quantile`` where set."""

    title = "EQRM"
    idea = "risks"
    citation = (
        "Eastwood et al., Probable Domain Generalization via Quantile Risk Minimization, "
        "NeurIPS 2022"
    )

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """A fresh optimiser at ``lr_after`` once the warm-up is over."""
        return base.after_warmup(step, self.warmup, lr=self.lr_after)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if memory.step < self.warmup:
            return Terms({"risk": ev.risk})
        if self.log_tail is None:
            value = kde_quantile(ev.domain_risks, self.quantile)
        else:
            value = kde_tail_quantile(ev.domain_risks, self.log_tail)
        return Terms({"quantile": value}, raw={"risk": ev.risk})
