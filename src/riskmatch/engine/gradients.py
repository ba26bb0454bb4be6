"""Norms of the gradients of risk and penalty, without any effect on training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from riskmatch.contract import Eval
from riskmatch.data.domain import Batch, Domain
from riskmatch.divergence.checks import NonFiniteError
from riskmatch.engine.evaluate import evaluation_mode
from riskmatch.engine.step import Stepper
from riskmatch.runs.scores import Split

SAMPLES = 64
"""Most samples of each domain."""


def gradient_norms(
    stepper: Stepper, splits: Mapping[str, Mapping[Split, Domain]], samples: int = SAMPLES
) -> dict[str, float]:
    """Norms of the gradients of the risk and of the other terms of the next step, by all weights.

    They are taken in evaluation mode on the first ``samples`` training samples of each training
    domain. Weights, buffers, the method's memory and random streams are left as they were.

    Returns:
        ``risk`` and ``penalty``; empty where the loss has no other term than the risk, or a risk is
        not finite.
    """
    memory = stepper.memory
    generator = torch.Generator().set_state(memory.generator.get_state())
    apart = replace(memory, state=dict(memory.state), generator=generator)
    parts = [
        (splits[name]["train"].x[:samples], splits[name]["train"].y[:samples])
        for name in stepper.domains
    ]
    with evaluation_mode(stepper.model), torch.enable_grad():
        batch = Batch.join(parts, stepper.domains)
        ev = Eval(stepper.model, batch, stepper.settings.risk, amp=stepper.settings.amp)
        try:
            terms = dict(stepper.objective(ev, apart).parts)
        except NonFiniteError:
            return {}
        risk = terms.pop("risk", None)
        if risk is None or not terms:
            return {}
        weights = stepper.trainable()
        penalty = torch.stack(list(terms.values())).sum()
        return {"risk": _norm(risk, weights), "penalty": _norm(penalty, weights)}


def _norm(term: Tensor, weights: list[Tensor]) -> float:
    if not term.requires_grad:  # a penalty that is constant, or clipped to zero
        return 0.0
    gradients = torch.autograd.grad(term, weights, retain_graph=True, allow_unused=True)
    known = [gradient.float().norm() for gradient in gradients if gradient is not None]
    return float(torch.stack(known).norm()) if known else 0.0
