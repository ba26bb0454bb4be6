"""Transferability of the classifier between domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Terms, classifier_of
from riskmatch.space import NOT_NEGATIVE, POSITIVE, Choice, LogUniform, Uniform, tuned


@dataclass(frozen=True)
class Transfer(Objective):
    r"""Learn features on which no classifier near the trained one serves the domains unequally.

    .. math:: \min_{f, c} \bar R(c \circ f), \qquad
              \min_f \; \lambda \bigl[ \max_e R_e(a \circ f) - \min_e R_e(a \circ f) \bigr],
              \qquad \lVert a - c \rVert \le \delta

    A step has three turns: one on the risk; one of the same optimiser on the gap of the adversary
    a, which the step before left, and which changes the features alone; then a starts at c again
    and takes ``ascent_steps`` of gradient ascent on the gap, each cut back to the distance δ. At
    the first step a is c. In the memory ``adversary/NAME`` is the weight of a that c calls NAME.
    """

    weight: float = tuned(1.0, LogUniform(-2, 1), NOT_NEGATIVE, domainbed="t_lambda")
    """λ, of the gap."""
    radius: float = tuned(2.0, Uniform(0.1, 3.0), POSITIVE, domainbed="delta")
    """δ, the largest distance of the adversary from the classifier, all weights as one vector."""
    ascent_steps: int = tuned(10, Choice((1, 2, 5, 10)), POSITIVE, domainbed="d_steps_per_g")
    """Steps of the adversary for each step of the network."""
    ascent_lr: float = tuned(1e-3, LogUniform(-4.5, -2.5), POSITIVE, domainbed="lr_d")
    """Learning rate of the adversary."""

    title = "Transfer"
    idea = "adversarial"
    domainbed_hparams: ClassVar[Mapping[str, str]] = {
        "gda": "the network is always trained by its optimiser, with gda=True DomainBed's is not",
        "weight_decay_d": "DomainBed ignores it",
        "beta1": "DomainBed ignores it",
    }
    needs = "features"
    citation = (
        "Zhang et al., Quantifying and Improving Transferability in Domain Generalization, "
        "NeurIPS 2021"
    )

    def turns(self, step: int) -> int:
        """Risk, gap and ascent."""
        return 3 if self.weight else 1

    def optim(self, base: OptimSpec, step: int, turn: int = 0) -> Mapping[str, OptimSpec]:
        """One optimiser for risk and gap; the ascent is a part of its turn."""
        return {"network": base} if turn < 2 else {}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one turn."""
        classifier = dict(classifier_of(ev.model, ev.batch.x).named_parameters())
        if memory.turn == 2:
            return self._ascent(ev, memory, classifier)
        if memory.turn == 0:
            for name, weight in classifier.items():
                memory.state.setdefault(f"adversary/{name}", weight.detach().clone())
            return Terms({"risk": ev.risk})
        adversary = {k: memory.recall(f"adversary/{k}", w) for k, w in classifier.items()}
        gap = _gap(ev, ev.features, adversary)
        return Terms({"gap": self.weight * gap}, raw={"gap": gap})

    def _ascent(self, ev: Eval, memory: Memory, classifier: Mapping[str, Tensor]) -> Terms:
        """Keep the next adversary; the term is that of the last classifier on the way to it."""
        features = ev.features.detach()
        offsets = [torch.zeros_like(weight) for weight in classifier.values()]
        for step in range(self.ascent_steps + 1):
            pairs = zip(classifier.items(), offsets, strict=True)
            adversary = {k: (w.detach() + off).requires_grad_() for (k, w), off in pairs}
            term = self.weight * _gap(ev, features, adversary)
            if step < self.ascent_steps:
                slopes = torch.autograd.grad(term, [*adversary.values()], materialize_grads=True)
                steps = zip(offsets, slopes, strict=True)
                offsets = [offset + self.ascent_lr * slope for offset, slope in steps]
                distance = torch.stack([off.square().sum() for off in offsets]).sum().sqrt()
                offsets = [off * (self.radius / distance).clamp(max=1) for off in offsets]
        memory.state |= {f"adversary/{k}": weight.detach() for k, weight in adversary.items()}
        return Terms({"ascent": -term})


def _gap(ev: Eval, features: Tensor, adversary: Mapping[str, Tensor]) -> Tensor:
    """() the largest risk of a domain less the smallest, with other weights of the classifier."""
    logits = functional_call(classifier_of(ev.model, ev.batch.x), dict(adversary), (features,))
    risks = ev.domain_means(ev.risks_of(logits))
    return risks.max() - risks.min()
