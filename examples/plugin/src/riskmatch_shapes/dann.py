"""A method with a network of its own: features from which no discriminator tells the domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, Interval, LogUniform, tuned


@dataclass(frozen=True)
class DANN(Objective):
    r"""Train a discriminator d of domains on the features, and the network against it.

    .. math:: \min_d \; \ell_d + \gamma P, \qquad
              \min_{\text{network}} \; \bar R - \lambda\, (\ell_d + \gamma P)

    with ℓ_d the cross-entropy of the domain and P the mean squared norm of its gradient by the
    features. Steps alternate: ``critic_steps`` of the discriminator, then one of the network.
    """

    weight: float = tuned(1.0, LogUniform(-2, 2), NOT_NEGATIVE)
    """λ, of the discriminator's loss."""
    gradient_penalty: float = tuned(0.0, LogUniform(-2, 1), NOT_NEGATIVE)
    """γ, of the gradient penalty P."""
    critic_steps: int = tuned(1, Choice((1, 2, 4)), POSITIVE)
    """Steps of the discriminator for each step of the network."""
    critic_lr: float = tuned(5e-5, LogUniform(-5, -3.5), POSITIVE)
    """Learning rate of the discriminator."""
    critic_decay: float = tuned(0.0, LogUniform(-6, -2), NOT_NEGATIVE)
    """Weight decay of the discriminator."""
    beta1: float = tuned(0.5, Choice((0.0, 0.5)), Interval(0, 1, "left"))
    """First moment of Adam, of both."""
    width: int = tuned(256, Choice((64, 256, 1024)), POSITIVE)
    """Width of the discriminator."""

    title = "DANN"
    idea = "adversarial"
    needs = "features"
    citation = "Ganin et al., Domain-Adversarial Training of Neural Networks, JMLR 2016"

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The discriminator, features → domains."""
        layers = nn.Linear(shape.features, self.width), nn.ReLU(), nn.Linear(self.width, self.width)
        top = nn.ReLU(), nn.Linear(self.width, shape.domains)
        return {"discriminator": nn.Sequential(*layers, *top)}

    def _trains_critic(self, step: int) -> bool:
        return (step + 1) % (self.critic_steps + 1) < self.critic_steps

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The discriminator's optimiser or the network's, each with its own state."""
        spec = OptimSpec("adam", base.lr, base.weight_decay, betas=(self.beta1, 0.9))
        if not self._trains_critic(step):
            return {"network": spec}
        critic = replace(spec, lr=self.critic_lr, weight_decay=self.critic_decay)
        return {"discriminator": critic}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if self._trains_critic(memory.step):
            return Terms({"discriminator": self._loss(ev, ev.features.detach())})
        return Terms.penalised(ev.risk, -self.weight, lambda: self._loss(ev, ev.features))

    def _loss(self, ev: Eval, features: Tensor) -> Tensor:
        """() the discriminator's loss of features (n, d)."""
        if not features.requires_grad:
            features = features.detach().requires_grad_()
        logits = ev.modules["discriminator"](features)
        loss = cross_entropy(logits, ev.batch.domains)
        if not self.gradient_penalty:
            return loss
        (gradient,) = torch.autograd.grad(loss * len(features), features, create_graph=True)
        return loss + self.gradient_penalty * gradient.square().sum(1).mean()
