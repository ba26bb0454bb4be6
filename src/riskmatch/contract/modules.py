"""The networks of a method: built for the network in training, and in use after it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from riskmatch.contract.evaluation import Eval
from riskmatch.contract.network import evaluation_mode, outputs
from riskmatch.contract.objective import Memory, Objective, Shape
from riskmatch.data.domain import Batch, NamedTensors
from riskmatch.data.sampler import stream
from riskmatch.registry import PartError

PARTS = "all", "network", "featurizer", "classifier"
"""Names of optimisers that no module can have."""


def prepare(
    memory: Memory, objective: Objective, model: nn.Module, x: Tensor | NamedTensors, domains: int
) -> None:
    """Put into a memory what its method brings or needs beside the network, unless it is there.

    Args:
        memory: receives the modules, and a copy of the network where the method needs it.
        objective: the method.
        model: the network before the first step.
        x: two inputs or more.
        domains: number of training domains.

    Example:
        >>> from riskmatch.objectives import ERM
        >>> memory = Memory()
        >>> prepare(memory, ERM(), nn.Linear(2, 3), torch.zeros(2, 2), domains=4)
        >>> len(memory.modules), memory.shape
        (0, None)
    """
    if memory.shape is None and objective.overrides("modules"):
        with evaluation_mode(model), torch.no_grad():
            features, logits = outputs(model, x[:2])
        width = 0 if features is None else features.shape[1]
        memory.shape = Shape(width, logits.shape[1] if logits.ndim > 1 else 1, domains)
        seed = stream("modules", memory.generator.initial_seed()).initial_seed()
        memory.modules = build_modules(objective, memory.shape, model, seed).to(logits)
    if memory.start is None and objective.needs_start:
        memory.start = copy.deepcopy(model).eval().requires_grad_(False)


def build_modules(
    objective: Objective, shape: Shape, model: nn.Module, seed: int = 0
) -> nn.ModuleDict:
    """The modules of a method, in training mode, with weights drawn from ``seed``.

    With a copy of the network ``model`` where the method needs it.

    Raises:
        PartError: it returns something else, or a name is taken.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        modules = objective.modules(shape)
    method = type(objective).__name__
    for name, module in modules.items():
        if name in PARTS:
            raise PartError(f"{method} calls a module {name!r}: give it another name.")
        if not isinstance(module, nn.Module):
            raise PartError(
                f"{method}.modules must return torch modules by name, got {module!r} as {name!r}."
            )
    if objective.needs_copy:
        modules["copy"] = copy.deepcopy(model)
    return nn.ModuleDict(modules).train()


class Predictor(nn.Module):
    """The network, the modules and the ``predict`` of a method as one network.

    Args:
        network: maps x to ``(features, logits)`` or to logits.
        objective: the method.
        modules: its modules.
        shape: what they were built for.

    Shapes: x (n, …) → features (n, d) of the network, where it has any, and outputs (n, c).
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        modules: nn.ModuleDict,
        shape: Shape | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.brought = modules
        self.objective = objective
        self.shape = shape

    def forward(self, *x: Tensor, **named: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        """Compute features and outputs."""
        inputs = NamedTensors(named) if named else x[0]
        ev = Eval(self.network, _Inputs(inputs), modules=dict(self.brought.items()))
        predicted, features = self.objective.predict(ev), ev.known_features
        return predicted if features is None else (features, predicted)


def predictor(model: nn.Module, objective: Objective, modules: nn.ModuleDict) -> nn.Module:
    """What is evaluated and saved: the network itself unless the method predicts otherwise."""
    return Predictor(model, objective, modules) if objective.overrides("predict") else model


def whole_blocks(model: nn.Module, size: int) -> int:
    """The most samples up to ``size``, or the fewest, that are whole blocks.

    The modules of a method that predicts several samples together say how many, by ``block``.
    """
    brought = model.brought.values() if isinstance(model, Predictor) else ()
    block = max((int(getattr(module, "block", 1)) for module in brought), default=1)
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, got {size}.")
    return max(block, size - size % block)


def inner(model: nn.Module) -> nn.Module:
    """The network itself, without a method around it."""
    return model.network if isinstance(model, Predictor) else model


def around(model: nn.Module, network: nn.Module) -> nn.Module:
    """Another network, with the method around it that is around ``model``, if there is one."""
    if isinstance(model, Predictor):
        return Predictor(network, model.objective, model.brought, model.shape)
    return network


class _Inputs(Batch):
    """Inputs alone."""

    def __init__(self, x: Tensor | NamedTensors) -> None:
        object.__setattr__(self, "x", x)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"predict has inputs alone, and a batch of them has no {name}: compute the outputs "
            "from ev.features, ev.logits and ev.modules."
        )
