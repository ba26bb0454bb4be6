"""The loop: a model, an objective, batches."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from riskmatch.contract import Memory, Objective, OptimSpec
from riskmatch.data.batch import Batch
from riskmatch.engine.step import Stepper, StepSettings


def fit(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    optim: OptimSpec,
    memory: Memory | None = None,
    settings: StepSettings | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` with ``objective``, one step per batch.

    Args:
        model: maps x to ``(features, logits)``; changed in place.
        objective: a method of :mod:`riskmatch.objectives`.
        batches: any iterable of batches, on the model's device.
        optim: the optimiser before the objective's own changes.
        memory: what an earlier call left behind, to go on from it.
        settings: per-sample loss, schedule, clipping, mixed precision.

    Returns:
        For every step the loss, its terms, the raw penalties and the number of the worst domain.

    Example:
        >>> import torch
        >>> from riskmatch.models import MLP
        >>> from riskmatch.objectives import ERM
        >>> batch = Batch(torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 0, 1]), (2, 4))
        >>> history = fit(MLP(2, 2), ERM(), [batch] * 20, OptimSpec("adam", lr=0.01))
        >>> history[-1]["loss"] < history[0]["loss"]
        True
    """
    memory = memory or Memory()
    memory.base = optim
    stepper = Stepper(model.train(), objective, memory, settings or StepSettings())
    return [stepper.step(batch) for batch in batches]
