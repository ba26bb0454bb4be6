"""Adaptive risk minimisation, by contextual meta-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, Objective, Shape, Terms

WIDTH = 64


class Context(nn.Module):
    """What the features of some samples say of their domain, as a shift of their outputs.

    Shapes: features (n, d), block of each sample (n,), which are less than n → (n, c).
    """

    block: Tensor

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for here in (features, WIDTH):
            layers += [nn.Linear(here, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU()]
        self.context = nn.Sequential(*layers, nn.Linear(WIDTH, WIDTH))
        self.shift = nn.Linear(WIDTH, outputs, bias=False)
        self.register_buffer("block", torch.ones((), dtype=torch.long))

    def forward(self, features: Tensor, blocks: Tensor) -> Tensor:
        """Compute the shift of each sample from the mean context of its block."""
        context = self.context(features)
        rows = blocks[:, None].expand_as(context)
        sums = torch.zeros_like(context).scatter_add(0, rows, context)
        sizes = torch.zeros_like(context).scatter_add(0, rows, torch.ones_like(context))
        shifts: Tensor = self.shift((sums / sizes.clamp(min=1))[blocks])
        return shifts


@dataclass(frozen=True)
class ARM(Objective):
    r"""Tell the classifier what unlabelled samples of the domain look like.

    .. math:: \frac1m \sum_e \operatorname*{mean}_{i \in e} r(z_i + V c_e,\, y_i), \qquad
              c_e = \operatorname*{mean}_{i \in e} h(f_i)

    with a context network h of the features. A linear classifier of features beside a context is
    the sum z + V c of one of each, so that any network can be trained. The trained model predicts
    samples in blocks of the size of a domain in training batches, in order: their context is that
    of the block.
    """

    title = "ARM"
    idea = "data"
    needs = "features"
    citation = (
        "Zhang et al., Adaptive Risk Minimization: Learning to Adapt to Domain Shift, NeurIPS 2021"
    )

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The context network h and the weights V."""
        return {"context": Context(shape.features, shape.outputs)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        memory.state["block"] = torch.tensor(max(ev.batch.sizes))
        shifts = ev.modules["context"](ev.features, ev.batch.domains)
        return Terms({"risk": ev.domain_means(ev.risks_of(ev.logits + shifts)).mean()})

    def after_turn(self, modules: Mapping[str, nn.Module], memory: Memory) -> None:
        """Keep the size of a block, which the trained model needs."""
        context = modules["context"]
        assert isinstance(context, Context)
        context.block.copy_(memory.state["block"])

    def predict(self, ev: Eval) -> Tensor:
        """(n, c) the outputs with the context of each block of samples."""
        context, features = ev.modules["context"], ev.features
        assert isinstance(context, Context)
        numbers = torch.arange(features.shape[0], device=features.device)  # len is no symbol
        shifts: Tensor = context(features, numbers // context.block)
        return ev.logits + shifts
