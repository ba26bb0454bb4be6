"""Risks of a batch that is spread over processes, gathered as one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def gather_risks(
    risks: Tensor, labels: Tensor, group: ProcessGroup | Literal["world"]
) -> tuple[Tensor, Tensor]:
    """The risks and integer labels of all processes of a group, in the order of their ranks.

    One float and one integer per sample are exchanged. The result depends on ``risks`` where they
    are this process's own, so a loss of it has the gradient of the global batch with respect to
    them. Processes may have different numbers of samples, also none.

    Args:
        risks: (n,) this process's risks.
        labels: (n,) an integer per risk, such as its domain.
        group: a process group, or ``"world"``: the default one, or this process alone if there is
            none.

    Returns:
        (N,) risks and (N,) labels, equal in value on every process.

    Example:
        >>> gather_risks(torch.tensor([0.5, 0.1]), torch.tensor([0, 1]), "world")
        (tensor([0.5000, 0.1000]), tensor([0, 1]))
    """
    if risks.dim() != 1 or labels.shape != risks.shape:
        raise ValueError(
            f"risks and labels must be tensors (n,), got {tuple(risks.shape)} and "
            f"{tuple(labels.shape)}."
        )
    if _is_alone(group):
        return risks, labels.long()
    members = None if group == "world" else group
    rank = dist.get_rank(members)
    sizes = _gather(torch.tensor([len(risks)], device=risks.device), members)
    counts = [int(size) for size in sizes]
    longest = max(counts)
    numbers = _gather(_padded(risks.detach(), longest), members)
    names = _gather(_padded(labels.long(), longest), members)
    parts = [part[:count] for part, count in zip(numbers, counts, strict=True)]
    parts[rank] = risks
    return torch.cat(parts), torch.cat([n[:c] for n, c in zip(names, counts, strict=True)])


def average_over_processes(loss: Tensor, group: ProcessGroup | Literal["world"]) -> Tensor:
    """``loss`` with its gradient times the number of processes.

    DistributedDataParallel divides the sum of the processes' gradients by their number; this undoes
    it, so that the gradient is that of the global batch. The value stays.
    """
    if _is_alone(group):
        return loss
    size = dist.get_world_size(None if group == "world" else group)
    return loss.detach() + size * (loss - loss.detach())


def _is_alone(group: ProcessGroup | Literal["world"]) -> bool:
    return group == "world" and not (dist.is_available() and dist.is_initialized())


def _gather(values: Tensor, members: ProcessGroup | None) -> list[Tensor]:
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size(members))]
    dist.all_gather(parts, values.contiguous(), group=members)
    return parts


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values.new_zeros(length - len(values))])
