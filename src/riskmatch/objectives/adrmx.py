"""Additive disentanglement of domain features with remix loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.objectives.dann import mlp, trains_critic
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, Interval, Tuned, bounded, tuned

TEMPERATURE, SMALL = 0.07, 1e-5


@dataclass(frozen=True)
class ADRMX(Objective):
    r"""Subtract from the features those that a second network learns of the domain.

    .. math:: \bar R(c \circ f) + \bar R(c' \circ h) + w_d\, \ell(g) + w_r\, \rho
              + w_c\, [S(f) + S(h)] - \lambda\, \ell_d(h), \qquad h = f - g

    with f and g the features of network and copy, c and c′ their classifiers, ℓ(g) the
    cross-entropy of the domain under a classifier of g, ℓ_d(h) that of the discriminator of h, S
    the supervised contrastive loss at temperature 0.07, and ρ = Σ r(c(h_i + g_j), y_i) / C over one
    random pair (i, j) of a class and of two domains for each of the C classes. Discriminator and
    the rest take steps in turn as in DANN, by Adam without weight decay. The trained model is the
    network, c ∘ f.
    """

    weight: float = bounded(0.75, NOT_NEGATIVE, domainbed="disc_lambda")
    """λ, of the discriminator's loss."""
    domain_weight: float = bounded(1.0, NOT_NEGATIVE, domainbed="dclf_lambda")
    """w_d, of the cross-entropy of the domain."""
    remix_weight: float = bounded(1.0, NOT_NEGATIVE, domainbed="rmxd_lambda")
    """w_r, of the risk of remixed features."""
    contrast_weight: float = bounded(1.0, NOT_NEGATIVE, domainbed="cnt_lambda")
    """w_c, of the contrastive losses."""
    critic_steps: int = bounded(2, POSITIVE, domainbed="d_steps_per_g_step")
    """Steps of the discriminator for each step of the rest."""
    beta1: float = bounded(0.5, Interval(0, 1, "left"))
    """Decay of Adam's first moment; that of the second is 0.9."""
    critic_width: int = bounded(256, POSITIVE, domainbed="mlp_width")
    """Width of the discriminator."""
    critic_depth: int = tuned(9, Choice((8, 9, 10)), Interval(2), domainbed="mlp_depth")
    """Number of its linear layers."""
    critic_dropout: float = bounded(0.0, Interval(0, 1, "left"), domainbed="mlp_dropout")
    """Share of its activations that are dropped."""

    title = "ADRMX"
    idea = "adversarial"
    needs = "features"
    needs_copy = True
    training: ClassVar[Mapping[str, Tuned]] = {
        **Objective.training,
        "lr": Tuned(
            3e-5,
            Choice((2e-5, 3e-5, 4e-5, 5e-5)),
            {"rotated-mnist": Tuned(3e-3, Choice((5e-4, 1e-3, 2e-3, 3e-3)))},
        ),
        "weight_decay": Tuned(0.0, Choice((0.0,))),
    }
    citation = (
        "Demirel et al., ADRMX: Additive Disentanglement of Domain Features with Remix Loss, "
        "arXiv 2023"
    )

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The classifier of domains, and the discriminator."""
        narrowing = [max(1, shape.features // share) for share in (1, 2, 4)]
        even = [shape.features, *[self.critic_width] * (self.critic_depth - 1)]
        return {
            "domain": mlp([*narrowing, shape.domains]),
            "discriminator": mlp([*even, shape.domains], self.critic_dropout),
        }

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimiser of the discriminator, or those of the rest."""
        spec = OptimSpec("adam", base.lr, betas=(self.beta1, 0.9))
        if trains_critic(step, self.critic_steps):
            return {"discriminator": spec}
        return dict.fromkeys(("network", "copy", "domain"), spec)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        f, g, y = ev.features, ev.copy.features, ev.classes
        h = f - g
        if trains_critic(memory.step, self.critic_steps):
            return Terms({"discriminator": _domain_loss(ev, "discriminator", h.detach())})

        def remixed() -> Tensor:
            i, j = self.draw(y, ev.batch.domains, memory.generator).unbind(1)
            return ev.risks_of(ev.classify(h[i] + g[j]), y[i]).sum() / ev.logits.shape[1]

        final = ev.domain_means(ev.risks_of(ev.copy.classify(h))).mean()
        others: dict[str, tuple[float, Callable[[], Tensor]]] = {
            "domain": (self.domain_weight, lambda: _domain_loss(ev, "domain", g)),
            "remix": (self.remix_weight, remixed),
            "contrast": (self.contrast_weight, lambda: _contrast(f, y) + _contrast(h, y)),
            "penalty": (-self.weight, lambda: _domain_loss(ev, "discriminator", h)),
        }
        raw = {name: term() for name, (weight, term) in others.items() if weight}
        weighted = {name: others[name][0] * value for name, value in raw.items()}
        return Terms({"risk": ev.risk, "final risk": final, **weighted}, raw)

    def draw(self, y: Tensor, domains: Tensor, generator: torch.Generator) -> Tensor:
        """(k, 2) a random sample of each class, and one of the class in another domain, if any."""
        order = torch.randperm(len(y), generator=generator).to(y.device)
        pairs = [order.new_empty(0, 2)]
        for label in y.unique():
            members = order[y[order] == label]
            others = members[domains[members] != domains[members[0]]]
            pairs.append(torch.stack([members[:1].expand(len(others)), others], 1)[:1])
        return torch.cat(pairs)


def _domain_loss(ev: Eval, module: str, features: Tensor) -> Tensor:
    """() the cross-entropy of the domain, which a module tells from features (n, d)."""
    losses = cross_entropy(ev.modules[module](features), ev.batch.domains, reduction="none")
    return ev.domain_means(losses).mean()


def _contrast(features: Tensor, y: Tensor) -> Tensor:
    """() the supervised contrastive loss of features (n, d) with labels y (n,)."""
    unit, own = normalize(features, dim=1), torch.eye(len(y), dtype=torch.bool, device=y.device)
    near = (unit @ unit.T / TEMPERATURE).exp().masked_fill(own, 0) / 2
    logs = (near / (near.sum(1, keepdim=True) + SMALL) + SMALL).log()
    same = (y[:, None] == y) & ~own
    means = (logs * same).sum(1) / same.sum(1).clamp(min=1)  # 0 without another of the class
    return -means.sum() / (same.any(1).sum() + 1)
