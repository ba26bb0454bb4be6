"""The exact gradient of a large batch in the memory of a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel


class HasLoss(Protocol):
    """A value with the loss of a batch, such as :class:`~riskmatch.matching.Matching`."""

    @property
    def loss(self) -> Tensor:
        """() the loss."""


Piece = TypeVar("Piece")
Result = TypeVar("Result", bound=Tensor | HasLoss)


def accumulate(
    model: nn.Module,
    risks_of: Callable[[Piece], Tensor],
    pieces: Iterable[Piece],
    criterion: Callable[[Tensor], Result],
    *,
    scaler: torch.amp.GradScaler | None = None,
) -> Result:
    r"""Add the gradient of a loss of all risks of a batch to ``.grad``, one piece at a time.

    For a loss L of the risks r alone,

    .. math:: \frac{\partial L}{\partial\theta} = \sum_i w_i \frac{\partial r_i}{\partial\theta},
              \qquad w_i = \frac{\partial L}{\partial r_i}

    The first pass computes the risks of every piece without a graph; the weights w follow from all
    of them; the second pass computes each piece again, with the same dropout masks, and adds the
    gradient of its weighted risks. At most one piece has a graph at any time. The gradient is that
    of the whole batch, to rounding. The last piece is computed once.

    Autocast applies if the call is made inside of it.

    Args:
        model: the network that ``risks_of`` uses; DistributedDataParallel exchanges gradients once,
            with the last piece.
        risks_of: gives the (k,) risks of a piece, from any per-sample loss.
        pieces: pieces of the batch, of any sizes.
        criterion: gives the loss of all (n,) risks, which are in the order of the pieces, or a
            value with the attribute ``loss``.
        scaler: scales the loss before ``backward``; the step is left to the caller.

    Returns:
        What ``criterion`` returned, detached from the weights of the network.

    Raises:
        ValueError: there is no piece, a loss was reduced to a scalar, or the network has a
            BatchNorm layer in training mode, whose outputs depend on the other samples; or no
            gradient can be computed, as under ``torch.no_grad()``.
        TypeError: ``criterion`` returned no tensor.

    Example:
        >>> from torch.nn.functional import cross_entropy
        >>> from riskmatch import RiskMatching
        >>> model, criterion = nn.Linear(2, 3), RiskMatching(weight=5.0)
        >>> x, y, domains = torch.randn(100, 2), torch.arange(100) % 3, torch.arange(100) % 2
        >>> out = accumulate(
        ...     model,
        ...     lambda piece: cross_entropy(model(piece[0]), piece[1], reduction="none"),
        ...     list(zip(x.split(16), y.split(16))),
        ...     lambda risks: criterion(risks, domains),
        ... )
        >>> out.penalty.shape, model.weight.grad.shape
        (torch.Size([]), torch.Size([3, 2]))
    """
    if not torch.is_grad_enabled():
        raise ValueError("accumulate computes gradients: call it outside of torch.no_grad().")
    parts = list(pieces)
    if not parts:
        raise ValueError("accumulate needs at least one piece of a batch, got none.")
    check_batch_norm(model)
    # The graph of the last piece is kept, except under DistributedDataParallel, which needs the
    # passes with a graph to follow each other.
    distributed = isinstance(model, DistributedDataParallel)
    states, risks = [], []
    with torch.no_grad():
        for piece in parts if distributed else parts[:-1]:
            states.append(_random_state(model))
            risks.append(_checked(risks_of(piece)))
    torch.clear_autocast_cache()  # weights cast without a graph would have no gradient below
    last = None if distributed else _checked(risks_of(parts[-1]))
    if last is not None:
        risks.append(last.detach())
    after = _random_state(model)
    whole = torch.cat(risks).requires_grad_()
    result = criterion(whole)
    loss = _loss(result)
    (weights,) = torch.autograd.grad(loss, whole, retain_graph=True)
    shares = weights.split([len(part) for part in risks])

    def backward(part: Tensor, share: Tensor) -> None:
        weighted = (part * share.to(part.dtype)).sum()
        (weighted if scaler is None else scaler.scale(weighted)).backward()

    if last is not None:
        backward(last, shares[-1])
        last = None  # frees its graph
    for number, state in enumerate(states):
        _restore(model, state)
        with _without_exchange(model, number < len(states) - 1):
            backward(risks_of(parts[number]), shares[number])
    _restore(model, after)
    return result


def _checked(risks: Tensor) -> Tensor:
    if risks.dim() != 1:
        raise ValueError(
            f"risks_of must give one risk per sample, a tensor (k,), got {tuple(risks.shape)}. "
            'Compute the loss with reduction="none".'
        )
    return risks


def _loss(result: object) -> Tensor:
    loss = getattr(result, "loss", result)
    if not isinstance(loss, Tensor):
        raise TypeError(
            "criterion must return the loss as a tensor, or a value with such an attribute loss, "
            f"got {type(loss).__name__}."
        )
    if not loss.requires_grad:
        raise ValueError(
            "The loss that criterion returned does not depend on the risks: compute it from them "
            "without item(), detach() or torch.no_grad()."
        )
    return loss


def check_batch_norm(model: nn.Module) -> None:
    """Raise ``ValueError`` if a layer is a BatchNorm in training mode."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.training:
            raise ValueError(
                f"The layer {name} is a BatchNorm in training mode: its outputs depend on the "
                "other samples, so pieces of a batch, or processes with a share of it, cannot give "
                "the gradient of the whole. Put it in evaluation mode with .eval(), or use another "
                "normalisation."
            )


def _random_state(model: nn.Module) -> tuple[Tensor, Tensor | None]:
    """States of the generators of the CPU and of the model's GPU."""
    weight = next(model.parameters(), None)
    gpu = None if weight is None or weight.device.type != "cuda" else weight.device
    return torch.get_rng_state(), None if gpu is None else torch.cuda.get_rng_state(gpu)


def _restore(model: nn.Module, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], next(model.parameters()).device)


def _without_exchange(model: nn.Module, active: bool) -> AbstractContextManager[None]:
    """A context in which DistributedDataParallel does not exchange gradients, if ``active``."""
    if active and isinstance(model, DistributedDataParallel):
        return model.no_sync()
    return nullcontext()
