"""Contrastive adversarial domain bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, tuned

BASE = 0.07
"""The temperature at which the penalty has the scale of the loss."""


@dataclass(frozen=True)
class CAD(Objective):
    r"""Make the features of a sample as close to those of other domains as to those of its own.

    .. math:: \bar R + \lambda \frac{\tau}{0.07} \operatorname*{mean}_i \Bigl[
              \log \sum_{j \in A_i} \exp \frac{\langle f_i, f_j \rangle}{\tau}
              - \log \sum_{j \in A_i : e_j \ne e_i} \exp \frac{\langle f_i, f_j \rangle}{\tau}
              \Bigr], \qquad A_i = \{j \ne i\}

    with f the features and e the domain. The mean is over the samples with another sample of their
    class in the batch; it is 0 where there are none, or there is a single domain.
    """

    weight: float = tuned(
        0.1, Choice((1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)), NOT_NEGATIVE, domainbed="lmbda"
    )
    """λ, of the bottleneck."""
    temperature: float = tuned(0.1, Choice((0.05, 0.1)), POSITIVE)
    """τ, of the similarities."""

    within_class: ClassVar[bool] = False
    """Whether a sample is compared with those of its class alone."""
    title = "CAD"
    idea = "features"
    domainbed_hparams: ClassVar[Mapping[str, str]] = {
        "is_normalized": "features are not normalised, as in every draw",
        "is_project": "features are not projected, as in every draw",
        "is_flipped": "other domains are made likelier, as in every draw",
    }
    needs = "features"
    citation = "Ruan et al., Optimal Representations for Covariate Shift, ICLR 2022"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: self._bottleneck(ev))

    def _bottleneck(self, ev: Eval) -> Tensor:
        features, y, domains = ev.features, ev.classes, ev.batch.domains
        others = ~torch.eye(len(y), dtype=torch.bool, device=y.device)
        same = (y[:, None] == y) & others
        compared = same if self.within_class else others
        wanted = compared & (domains[:, None] != domains)
        rows = same.any(1) & wanted.any(1)
        near = features @ features.T / self.temperature
        # Other rows are masked by nothing, so that both terms are equal.
        level, reached = (
            near.masked_fill(~mask & rows[:, None], -torch.inf).logsumexp(1)
            for mask in (compared, wanted)
        )
        return self.temperature / BASE * (level - reached).sum() / rows.sum().clamp(min=1)
