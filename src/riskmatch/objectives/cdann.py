"""Conditional domain-adversarial training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import one_hot

from riskmatch.contract import Eval, OptimSpec, Shape
from riskmatch.objectives.dann import DANN


@dataclass(frozen=True)
class CDANN(DANN):
    r"""DANN with a discriminator that knows the class, and in which every class weighs the same.

    .. math:: \ell_d = \frac1C \sum_y \operatorname*{mean}_{i : y_i = y}\,
              \ell\bigl(d(f_i + v_{y_i}),\, e_i\bigr)

    with e the domain, C the number of classes and v_y an embedding of the class, trained with the
    discriminator. A class that the batch lacks adds 0. Everything else is as in DANN.
    """

    title = "CDANN"
    idea = "adversarial"
    domainbed_hparams: ClassVar[Mapping[str, str]] = {
        "lr": "unused: lr_g",
        "lr_g": "lr",
        "weight_decay": "unused: weight_decay_g",
        "weight_decay_g": "weight_decay",
    }
    citation = (
        "Li et al., Deep Domain Generalization via Conditional Invariant Adversarial Networks, "
        "ECCV 2018"
    )

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The discriminator, and the embeddings of the classes."""
        return {
            **super().modules(shape),
            "embedding": nn.Embedding(shape.outputs, shape.features),
        }

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimisers of discriminator and embeddings, or that of the network."""
        specs = super().optim(base, step)
        return {**specs, "embedding": specs["discriminator"]} if "network" not in specs else specs

    def _inputs(self, ev: Eval, features: Tensor) -> Tensor:
        inputs: Tensor = features + ev.modules["embedding"](ev.classes)
        return inputs

    def _mean(self, ev: Eval, losses: Tensor) -> Tensor:
        classes = ev.logits.shape[1]
        counts = one_hot(ev.classes, classes).sum(0)  # bincount makes a GPU wait
        return (losses / counts[ev.classes]).sum() / classes
