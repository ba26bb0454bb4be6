"""A method that trains the classifier on features that the network did not compute."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import POSITIVE, LogUniform, tuned


@dataclass(frozen=True)
class FeatureMixup(Objective):
    r"""Classify convex combinations of the features of two samples of the batch.

    .. math:: \operatorname*{mean}_i \bigl[ \lambda\, r(z_{ij}, y_i)
              + (1 - \lambda)\, r(z_{ij}, y_j) \bigr], \qquad
              z_{ij} = \lambda z_i + (1 - \lambda) z_j, \quad
              \lambda \sim \mathrm{Beta}(\alpha, \alpha)

    with r the risk of a sample and j a random permutation of all samples of the batch.
    """

    alpha: float = tuned(0.2, LogUniform(-1, 1), POSITIVE)
    """α, of the Beta distribution of λ."""

    title = "Feature Mixup"
    idea = "data"
    needs = "features"
    citation = "Verma et al., Manifold Mixup: Better Representations by Interpolating, ICML 2019"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        order = torch.randperm(len(ev.features), generator=memory.generator)
        seed = int(torch.randint(2**62, (), generator=memory.generator))
        share = random.Random(seed).betavariate(self.alpha, self.alpha)
        other = order.to(ev.features.device)
        logits = ev.classify(share * ev.features + (1 - share) * ev.features[other])
        first, second = ev.risks_of(logits), ev.risks_of(logits, ev.batch.y[other])
        return Terms({"risk": (share * first + (1 - share) * second).mean()})
