"""Domain-adversarial training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, Interval, LogUniform, Tuned, tuned


@dataclass(frozen=True)
class DANN(Objective):
    r"""Train a discriminator of domains on the features, and the network against it.

    .. math:: \min_d \; \ell_d + \gamma P, \qquad
              \min_{f, c} \; \bar R - \lambda\, (\ell_d + \gamma P), \qquad
              P = \operatorname*{mean}_i\, \lVert \nabla_{f_i} \ell_{d, i} \rVert^2

    with ℓ_d the cross-entropy of the domain. A step trains one of the two: with k ``critic_steps``
    and s steps before it, the discriminator where (s + 1) mod (k + 1) < k, else the network. Both
    have an Adam with the first decay ``beta1`` and the second 0.9. The label of a domain is its
    position in the batch, which has every training domain.
    """

    weight: float = tuned(1.0, LogUniform(-2, 2), NOT_NEGATIVE, domainbed="lambda")
    """λ, of the discriminator's loss."""
    gradient_penalty: float = tuned(0.0, LogUniform(-2, 1), NOT_NEGATIVE, domainbed="grad_penalty")
    """γ, of the gradient penalty P."""
    critic_steps: int = tuned(
        1, LogUniform(0, 3, base=2, integer=True), POSITIVE, domainbed="d_steps_per_g_step"
    )
    """k, steps of the discriminator for each step of the network."""
    critic_lr: float = tuned(
        5e-5,
        LogUniform(-5, -3.5),
        POSITIVE,
        domainbed="lr_d",
        rotated_mnist=Tuned(1e-3, LogUniform(-4.5, -2.5)),
    )
    """Learning rate of the discriminator."""
    critic_decay: float = tuned(0.0, LogUniform(-6, -2), NOT_NEGATIVE, domainbed="weight_decay_d")
    """Weight decay of the discriminator."""
    beta1: float = tuned(0.5, Choice((0.0, 0.5)), Interval(0, 1, "left"))
    """Decay of Adam's first moment."""
    critic_width: int = tuned(
        256, LogUniform(6, 10, base=2, integer=True), POSITIVE, domainbed="mlp_width"
    )
    """Width of the discriminator."""
    critic_depth: int = tuned(3, Choice((3, 4, 5)), Interval(2), domainbed="mlp_depth")
    """Number of its linear layers."""
    critic_dropout: float = tuned(
        0.0, Choice((0.0, 0.1, 0.5)), Interval(0, 1, "left"), domainbed="mlp_dropout"
    )
    """Share of its activations that are dropped."""

    title = "DANN"
    idea = "adversarial"
    domainbed_hparams: ClassVar[Mapping[str, str]] = {
        "lr": "unused: lr_g",
        "lr_g": "lr",
        "weight_decay": "unused: weight_decay_g",
        "weight_decay_g": "weight_decay",
    }
    needs = "features"
    citation = "Ganin et al., Domain-Adversarial Training of Neural Networks, JMLR 2016"

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The discriminator, features → domains."""
        hidden = [self.critic_width] * (self.critic_depth - 1)
        return {"discriminator": mlp([shape.features, *hidden, shape.domains], self.critic_dropout)}

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimiser of the discriminator or of the network, each with its own state."""
        spec = OptimSpec("adam", base.lr, base.weight_decay, betas=(self.beta1, 0.9))
        if not trains_critic(step, self.critic_steps):
            return {"network": spec}
        return {"discriminator": replace(spec, lr=self.critic_lr, weight_decay=self.critic_decay)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        if trains_critic(memory.step, self.critic_steps):
            return Terms({"discriminator": self._loss(ev, ev.features.detach())})
        return Terms.penalised(ev.risk, -self.weight, lambda: self._loss(ev, ev.features))

    def _loss(self, ev: Eval, features: Tensor) -> Tensor:
        """() the loss of the discriminator on features (n, d)."""
        inputs = self._inputs(ev, features)
        if not inputs.requires_grad:
            inputs = inputs.detach().requires_grad_()
        logits = ev.modules["discriminator"](inputs)
        losses = cross_entropy(logits, ev.batch.domains, reduction="none")
        loss = self._mean(ev, losses)
        if not self.gradient_penalty:
            return loss
        (gradient,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
        return loss + self.gradient_penalty * ev.domain_means(gradient.square().sum(1)).mean()

    def _inputs(self, ev: Eval, features: Tensor) -> Tensor:
        """(n, d) what the discriminator sees."""
        return features

    def _mean(self, ev: Eval, losses: Tensor) -> Tensor:
        """() the mean of its losses (n,)."""
        return ev.domain_means(losses).mean()


def trains_critic(step: int, critic_steps: int) -> bool:
    """Whether a step trains the discriminator, not the network."""
    return (step + 1) % (critic_steps + 1) < critic_steps


def mlp(widths: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """Linear layers between ``widths``, with dropout and ReLU between them."""
    layers: list[nn.Module] = []
    for here, there in pairwise(widths):
        layers += [nn.Linear(here, there), nn.Dropout(dropout), nn.ReLU()]
    return nn.Sequential(*layers[:-2])
