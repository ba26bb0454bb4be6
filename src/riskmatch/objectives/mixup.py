"""Mixup between domains."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.data.domain import Batch
from riskmatch.space import POSITIVE, LogUniform, tuned


@dataclass(frozen=True)
class Mixup(Objective):
    r"""Train on convex combinations of samples of two domains.

    .. math:: \operatorname*{mean}_{(i,j)} \bigl[ \lambda\, \bar R(x_{ij}, y_i)
              + (1 - \lambda)\, \bar R(x_{ij}, y_j) \bigr], \qquad
              x_{ij} = \lambda x_i + (1 - \lambda) x_j, \quad
              \lambda \sim \mathrm{Beta}(\alpha, \alpha)

    The pairs are the neighbours on a random cycle through the domains, each with a λ of its own
    and as many samples as the smaller of the two has.
    """

    alpha: float = tuned(0.2, LogUniform(-1, 1), POSITIVE, domainbed="mixup_alpha")
    """α, of the Beta distribution of λ."""

    title = "Mixup"
    idea = "data"
    needs = "other data"
    citation = "Yan et al., Improve Unsupervised Domain Adaptation with Mixup Training, arXiv 2020"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if not isinstance(ev.batch.x, Tensor):
            raise ValueError("Mixup mixes inputs, so they must be one tensor, not a mapping.")
        xs, ys = ev.per_domain(ev.batch.x), ev.per_domain(ev.batch.y)
        order = torch.randperm(len(ys), generator=memory.generator).tolist()
        seed = int(torch.randint(2**62, (), generator=memory.generator))
        rng = random.Random(seed)  # torch draws no Beta from a generator
        shares, mixed, others = [], [], []
        for i, j in zip(order, order[1:] + order[:1], strict=True):
            n, share = min(len(ys[i]), len(ys[j])), rng.betavariate(self.alpha, self.alpha)
            mixed.append((share * xs[i][:n] + (1 - share) * xs[j][:n], ys[i][:n]))
            others.append(ys[j][:n])
            shares.append(share)
        view = ev.on(Batch.join(mixed))
        first, second = view.domain_risks, view.against(torch.cat(others)).domain_risks
        weight = torch.tensor(shares, dtype=first.dtype).to(first.device)
        return Terms({"risk": (weight * first + (1 - weight) * second).mean()})
