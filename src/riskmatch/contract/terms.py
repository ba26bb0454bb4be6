"""Terms of the loss of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from riskmatch.divergence import few
from riskmatch.registry import PartError


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
    def loss(self) -> Tensor:
        """() the sum of the parts."""
        first, *others = self.parts.values()
        return sum(others, start=first)

    def values(self) -> dict[str, float]:
        """Values of the parts."""
        return {name: part.item() for name, part in self.parts.items()}

    def backward(self) -> None:
        """Add the gradient of the loss to the weights."""
        self.loss.backward()


def checked_terms(terms: object, objective: object) -> Terms:
    """What an objective returned.

    Raises:
        PartError: it is not :class:`Terms`, or their sum is no loss to train on.
    """
    fault = ""
    if not isinstance(terms, Terms):
        fault = f"{type(terms).__name__}; return Terms({{'risk': ev.risk, …}})"
    elif not isinstance(terms, KnownTerms):
        for name, part in terms.parts.items():
            if not isinstance(part, Tensor):
                fault = f"{type(part).__name__} as the term '{name}'; keep it a tensor"
            elif part.ndim:
                fault = f"a term '{name}' of shape {tuple(part.shape)}; reduce it, by .mean() say"
        if not terms.parts:
            fault = "no terms; return at least the risk, Terms({'risk': ev.risk})"
        elif not fault and not any(part.requires_grad for part in terms.parts.values()):
            fault = "terms that do not depend on the weights; return them with their graph"
    if fault:
        raise PartError(
            f"{type(objective).__name__} must return Terms whose parts are tensors with one number "
            f"each, got {fault}."
        )
    assert isinstance(terms, Terms)
    return terms


class KnownTerms(Terms):
    """Terms whose gradients by the risks are known without autograd.

    Args:
        risks: (n,) the risks, with their graph.
        known: value and gradient (n,) of each term.
        raw: as of :class:`Terms`.

    Example:
        >>> import numpy as np, torch
        >>> risks = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> terms = KnownTerms(risks, {"risk": few.Known(2.0, np.array([0.5, 0.5]))}, {})
        >>> terms.backward()
        >>> terms.loss, risks.grad
        (tensor(2., grad_fn=<DotBackward0>), tensor([0.5000, 0.5000]))
    """

    _risks: Tensor
    _known: Mapping[str, few.Known]

    def __init__(
        self, risks: Tensor, known: Mapping[str, few.Known], raw: Mapping[str, Tensor]
    ) -> None:
        self.__dict__.update(raw=raw, _risks=risks, _known=known)

    @cached_property
    def parts(self) -> Mapping[str, Tensor]:
        """Their sum is the loss."""
        return {name: few.differentiable(self._risks, part) for name, part in self._known.items()}

    def values(self) -> dict[str, float]:
        """Values of the parts."""
        return {name: part.value for name, part in self._known.items()}

    def backward(self) -> None:
        """Add the gradient of the loss to the weights, from the risks on."""
        first, *others = (part.gradient for part in self._known.values())
        self._risks.backward(few.as_tensor(sum(others, start=first), self._risks))
