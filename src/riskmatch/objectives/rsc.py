"""Representation self-challenging."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import Interval, Uniform, tuned


@dataclass(frozen=True)
class RSC(Objective):
    r"""Train on features without those that the true class relies on most.

    .. math:: \bar R(f \odot m), \qquad m_{ik} = \bigl[ g_{ik} < Q_{1-p}(g_i) \bigr]
              \vee \bigl[ d_i < Q_{1-q}(d) \bigr], \qquad g_i = \nabla_{f_i} z_{i y_i}

    with Q the quantile over the features of a sample, or over the samples of the batch, and d the
    drop in the probability of the true class without the features of large gradient. So a sample
    keeps all features where their loss would change little. The masks are constants.
    """

    drop_features: float = tuned(
        1 / 3, Uniform(0, 0.5), Interval(0, 1), domainbed="rsc_f_drop_factor"
    )
    """p, share of the features that a sample loses."""
    drop_samples: float = tuned(
        1 / 3, Uniform(0, 0.5), Interval(0, 1), domainbed="rsc_b_drop_factor"
    )
    """q, share of the samples that lose features."""

    title = "RSC"
    idea = "features"
    needs = "features"
    citation = "Huang et al., Self-Challenging Improves Cross-Domain Generalization, ECCV 2020"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        logits = ev.classify(ev.features * self._mask(ev))
        return Terms({"risk": ev.domain_means(ev.risks_of(logits)).mean()})

    def _mask(self, ev: Eval) -> Tensor:
        """(n, d) whether a sample keeps a feature."""
        features, y = ev.features.detach().requires_grad_(), ev.classes[:, None]
        logits = ev.classify(features)
        (gradient,) = torch.autograd.grad(logits.gather(1, y).sum(), features)
        with torch.no_grad():
            small = gradient < gradient.quantile(1 - self.drop_features, 1, keepdim=True)
            without = ev.classify(features * small)
            drop = (logits.softmax(1) - without.softmax(1)).gather(1, y)  # (n, 1)
            return small | (drop < drop.quantile(1 - self.drop_samples))
