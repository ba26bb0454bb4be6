"""Terms of the loss of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Terms:
    """The named terms of a step's loss, and diagnostics to log beside them.

    Example:
        >>> import torch
        >>> Terms({"risk": torch.tensor(1.0), "penalty": torch.tensor(0.5)}).loss
        tensor(1.5000)
    """

    parts: Mapping[str, Tensor]
    """Their sum is the loss."""
    raw: Mapping[str, Tensor] = field(default_factory=dict)
    """Unweighted penalties and the like."""

    @classmethod
    def penalised(
        cls, risk: Tensor, weight: float, penalty: Callable[[], Tensor], name: str = "penalty"
    ) -> Terms:
        """``risk`` plus ``weight`` times a penalty, which is not computed where the weight is zero.

        Example:
            >>> import torch
            >>> Terms.penalised(torch.tensor(1.0), 2.0, lambda: torch.tensor(3.0)).parts
            {'risk': tensor(1.), 'penalty': tensor(6.)}
        """
        if not weight:
            return cls({"risk": risk})
        value = penalty()
        return cls({"risk": risk, name: weight * value}, raw={name: value})

    @property
    def differentiable(self) -> Mapping[str, Tensor]:
        """The parts, as functions of the weights."""
        return self.parts

    @property
    def loss(self) -> Tensor:
        """() the sum of the parts."""
        loss: Tensor = total(self.differentiable)
        return loss

    def values(self) -> dict[str, float]:
        """Values of the parts."""
        return {name: part.item() for name, part in self.parts.items()}

    def backward(self) -> None:
        """Add the gradient of the loss to the weights."""
        self.loss.backward()


@dataclass(frozen=True, kw_only=True)
class KnownTerms(Terms):
    """Terms whose gradient is known: ``backward`` starts at the risks, without a graph of theirs.

    The parts are values alone.
    """

    risks: Tensor
    """(n,) what the terms are functions of."""
    gradient: Tensor
    """(n,) the gradient of the loss by the risks."""
    by_autograd: Callable[[], Mapping[str, Tensor]]
    """Computes the parts with a graph."""

    @property
    def differentiable(self) -> Mapping[str, Tensor]:
        """The parts, as functions of the weights."""
        return self.by_autograd()

    def backward(self) -> None:
        """Add the gradient of the loss to the weights."""
        self.risks.backward(self.gradient.to(self.risks.dtype))


def total(parts: Mapping[str, Any]) -> Any:
    """The sum of tensors or arrays.

    Example:
        >>> total({"risk": 1.0, "penalty": 0.5})
        1.5
    """
    first, *others = parts.values()
    return sum(others, start=first)
