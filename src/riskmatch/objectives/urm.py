"""Uniform risk minimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import logsigmoid

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, LogUniform, Tuned, Uniform, tuned
from riskmatch.validation import check_option

Output = Literal["tanh", "relu", "sigmoid"]
WIDTH = 100


@dataclass(frozen=True)
class URM(Objective):
    r"""Distribute the features uniformly: a discriminator cannot tell them from uniform noise.

    .. math:: \min_{f, c} \; \bar R(c \circ g) - \lambda \operatorname*{mean}_i \log s_i, \qquad
              \min_d \; - \operatorname*{mean}_i \log \sigma(d(u_i))
              - \lambda \operatorname*{mean}_i \log (1 - s_i), \qquad s_i = \sigma(d(g_i))

    with g the features behind the activation ``output``, which the trained model has too, and u
    uniform noise of their shape, in [−1, 1) for tanh and in [0, 1) otherwise. Both are stepped in a
    step, each with the other as it was before.
    """

    weight: float = tuned(0.1, Uniform(0, 0.2), NOT_NEGATIVE, domainbed="urm_adv_lambda")
    """λ, of the losses on features."""
    output: Output = tuned("tanh", Choice(("tanh", "relu")), domainbed="urm_generator_output")
    """The activation of the features."""
    critic_lr: float = tuned(
        5e-5,
        LogUniform(-6, -4),
        POSITIVE,
        domainbed="urm_discriminator_lr",
        rotated_mnist=Tuned(1e-3, LogUniform(-5.5, -3)),
    )
    """Learning rate of the discriminator; its weight decay is that of the network."""
    critic_hidden: int = tuned(
        1, Choice((1, 2, 3)), NOT_NEGATIVE, domainbed="urm_discriminator_hidden_layers"
    )
    """Its hidden layers after the first."""

    title = "URM"
    idea = "adversarial"
    domainbed_hparams: ClassVar[Mapping[str, str]] = {
        "urm": "always adversarial, as in every draw",
        "urm_discriminator_label_smoothing": "labels are not smoothed, as in every draw",
        "urm_discriminator_optimizer": "always Adam, as in every draw",
    }
    needs = "features"
    citation = (
        "Krishnamachari et al., Uniformly Distributed Feature Representations for Fair and Robust "
        "Learning, TMLR 2024"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option("output", self.output, get_args(Output))

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The discriminator d, features → one logit."""
        widths = [shape.features, *[WIDTH] * (self.critic_hidden + 1)]
        layers: list[nn.Module] = []
        for here, there in pairwise(widths):
            layers += [nn.Linear(here, there), nn.LeakyReLU()]
        return {"discriminator": nn.Sequential(*layers, nn.Linear(WIDTH, 1))}

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimisers of both."""
        critic = OptimSpec("adam", self.critic_lr, base.weight_decay)
        return {"network": base, "discriminator": critic}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        features, critic = self._activated(ev), ev.modules["discriminator"]
        risk = ev.domain_means(ev.risks_of(ev.classify(features))).mean()
        if not self.weight:
            return Terms({"risk": risk})
        fixed = {name: weight.detach() for name, weight in critic.named_parameters()}

        def loss(logits: Tensor) -> Tensor:
            return -ev.domain_means(logsigmoid(logits[:, 0])).mean()

        penalty = loss(functional_call(critic, fixed, (features,)))
        noise = self.draw(features, memory.generator)
        told_apart = loss(critic(noise)) + self.weight * loss(-critic(features.detach()))
        parts = {"risk": risk, "penalty": self.weight * penalty, "discriminator": told_apart}
        return Terms(parts, raw={"penalty": penalty})

    def draw(self, features: Tensor, generator: torch.Generator) -> Tensor:
        """(n, d) uniform noise in the range of the activation."""
        noise = torch.rand(features.shape, generator=generator, dtype=features.dtype)
        return (2 * noise - 1 if self.output == "tanh" else noise).to(features.device)

    def predict(self, ev: Eval) -> Tensor:
        """(n, c) the outputs for the features behind the activation."""
        return ev.classify(self._activated(ev))

    def _activated(self, ev: Eval) -> Tensor:
        activated: Tensor = getattr(torch, self.output)(ev.features)
        return activated
