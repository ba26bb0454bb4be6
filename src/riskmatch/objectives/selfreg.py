"""Self-supervised contrastive regularisation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from riskmatch.contract import Eval, Memory, Objective, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, bounded


@dataclass(frozen=True)
class SelfReg(Objective):
    r"""Pull together samples of the same class, of whatever domain.

    .. math:: \bar R + w \min(\bar R, 1) \bigl[ \lambda D(a) + (1 - \lambda)\,
              D\bigl(\lambda a + (1 - \lambda) b\bigr) \bigr], \qquad
              D(a) = \lVert z - z_a \rVert^2 + \beta \lVert f - h(f)_a \rVert^2

    with z the logits, f the features, z_a those of a random sample of the same class for each
    sample, norms that are means over all entries, and λ ~ Beta(α, α). The factor min(R, 1) is a
    constant. The projector h is not trained; its batch normalisation sees every batch.
    """

    weight: float = bounded(1.0, NOT_NEGATIVE)
    """w, of the distances."""
    feature_weight: float = bounded(0.3, NOT_NEGATIVE)
    """β, of the features in them."""
    alpha: float = bounded(0.5, POSITIVE)
    """α, of the Beta distribution of λ."""

    title = "SelfReg"
    idea = "features"
    needs = "features"
    citation = (
        "Kim et al., SelfReg: Self-supervised Contrastive Regularization for Domain "
        "Generalization, ICCV 2021"
    )

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The projector h of features, of twice their width (at 2,048 of the same)."""
        width, hidden = shape.features, shape.features * (1 if shape.features == 2048 else 2)
        widths = [(width, hidden), (hidden, hidden), (hidden, width)]
        layers = [
            layer
            for here, there in widths
            for layer in (nn.Linear(here, there), nn.BatchNorm1d(there), nn.ReLU())
        ]
        return {"projector": nn.Sequential(*layers[:-1]).requires_grad_(False)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: self._distance(ev, memory))

    def _distance(self, ev: Eval, memory: Memory) -> Tensor:
        share, first, second = self.draw(ev.classes, memory.generator)
        projected = ev.modules["projector"](ev.features)

        def distance(mix: Callable[[Tensor], Tensor]) -> Tensor:
            features = mse_loss(ev.features, mix(projected))
            return mse_loss(ev.logits, mix(ev.logits)) + self.feature_weight * features

        same = distance(lambda values: values[first])
        mixed = distance(lambda values: share * values[first] + (1 - share) * values[second])
        return ev.risk.detach().clamp(max=1) * (share * same + (1 - share) * mixed)

    def draw(self, y: Tensor, generator: torch.Generator) -> tuple[float, Tensor, Tensor]:
        """λ, and two random partners (n,) of the same class for each sample."""
        seed = int(torch.randint(2**62, (), generator=generator))  # torch draws no Beta from it
        share = random.Random(seed).betavariate(self.alpha, self.alpha)
        return share, _partners(y, generator), _partners(y, generator)


def _partners(y: Tensor, generator: torch.Generator) -> Tensor:
    """(n,) a permutation within the classes."""
    shuffled = torch.randperm(len(y), generator=generator).to(y.device)
    partners = torch.empty_like(shuffled)
    partners[y.argsort(stable=True)] = shuffled[y[shuffled].argsort(stable=True)]
    return partners
