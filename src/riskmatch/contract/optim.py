"""Optimisers as values."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from riskmatch.contract.evaluation import Params
from riskmatch.validation import check_option

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8

OptimFactory = Callable[[list[Tensor]], torch.optim.Optimizer]
"""Makes an optimiser of some weights."""


@dataclass(frozen=True)
class OptimSpec:
    """An optimiser as a value; the engine starts a fresh one whenever this value changes.

    Example:
        >>> OptimSpec("sgd", lr=0.1, momentum=0.9).build([torch.zeros(2)]).defaults["momentum"]
        0.9
    """

    kind: Literal["adam", "adamw", "sgd", "factory"] = "adam"
    """Adam and SGD add the weight decay to the gradient, AdamW to the step. ``factory``: see
    :meth:`of`."""
    lr: float = 1e-3
    """Learning rate."""
    weight_decay: float = 0.0
    """Weight of the squared norm of the weights."""
    generation: int = 0
    """Number of the phase: two phases with the same settings still get an optimiser each."""
    momentum: float = 0.0
    """Momentum of SGD."""
    betas: tuple[float, float] = (_BETA1, _BETA2)
    """Decays of the two moving averages of Adam and AdamW."""
    factory: OptimFactory | None = field(default=None, repr=False)
    """Function that makes the optimiser, for the kind ``factory``."""

    def __post_init__(self) -> None:
        check_option("optimiser", self.kind, (*_OPTIMISERS, "factory"))
        if self.momentum and self.kind != "sgd":
            raise ValueError(f"momentum is for sgd, got momentum={self.momentum} for {self.kind}.")
        if self.betas != (_BETA1, _BETA2) and not self.kind.startswith("adam"):
            raise ValueError(f"betas are for adam and adamw, got {self.betas} for {self.kind}.")

    @classmethod
    def of(cls, factory: OptimFactory | torch.optim.Optimizer, params: list[Tensor]) -> OptimSpec:
        """The optimiser that ``factory`` makes of ``params``, or one that is made already.

        Its learning rate is that of its first group of weights. A method that starts a fresh
        optimiser after its warm-up calls the factory again, or takes one with the settings of the
        optimiser that was passed, which must hold no weights besides ``params``; where it, or a
        schedule, sets another learning rate, those of all groups are multiplied by the same factor.

        Example:
            >>> OptimSpec.of(lambda params: torch.optim.RAdam(params, lr=0.1), [torch.zeros(2)]).lr
            0.1
        """
        if isinstance(factory, torch.optim.Optimizer):
            made, factory = factory, _reusing(factory)
        else:
            made = factory(params)
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(
                "optim must be a function of a list of weights that returns a "
                f"torch.optim.Optimizer, got {made!r}."
            )
        first = made.param_groups[0]
        lr, decay = float(first["lr"]), float(first.get("weight_decay", 0.0))
        return cls("factory", lr, decay, factory=factory)

    def after_warmup(self, step: int, warmup: int, lr: float | None = None) -> OptimSpec:
        """This optimiser during the warm-up; then a fresh one, at ``lr`` where one is given.

        Example:
            >>> OptimSpec(lr=1e-3).after_warmup(step=5, warmup=4, lr=1e-4)  # doctest: +ELLIPSIS
            OptimSpec(kind='adam', lr=0.0001, weight_decay=0.0, generation=1, momentum=0.0, ...)
        """
        if step < warmup:
            return self
        return _second_phase(self, self.lr if lr is None else lr)

    def build(self, params: list[Tensor]) -> torch.optim.Optimizer:
        """The optimiser of ``params``."""
        if self.kind == "factory":
            assert self.factory is not None
            optimizer = self.factory(params)
            first = float(optimizer.param_groups[0]["lr"])
            for group in optimizer.param_groups:
                group["lr_share"] = float(group["lr"]) / first if first else 1.0
            return optimizer
        more = {"momentum": self.momentum} if self.kind == "sgd" else {"betas": self.betas}
        return _OPTIMISERS[self.kind](params, lr=self.lr, weight_decay=self.weight_decay, **more)


def _reusing(optimizer: torch.optim.Optimizer) -> OptimFactory:
    """A function that returns the optimiser, and then others with its settings and no state."""
    settings = [{**group} for group in optimizer.param_groups]
    unused = [optimizer]

    def factory(params: list[Tensor]) -> torch.optim.Optimizer:
        held = {id(p) for group in settings for p in group["params"] if p.requires_grad}
        if not held or held - {*map(id, params)}:
            raise ValueError(
                "The optimiser holds other weights than those that the method trains: pass a "
                "function of the weights, as in lambda weights: torch.optim.Adam(weights, lr=1e-3)."
            )
        if unused:
            return unused.pop()
        fresh = copy.copy(optimizer)
        fresh.state = defaultdict(dict)
        fresh.param_groups = [{**group} for group in settings]
        return fresh

    return factory


_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


@lru_cache(maxsize=8)  # asked for in every step
def _second_phase(spec: OptimSpec, lr: float) -> OptimSpec:
    return replace(spec, lr=lr, generation=1)


@torch.no_grad()
def adam_step(
    params: Params, gradients: Params, spec: OptimSpec, state: Params
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    r"""One step of Adam on named tensors; nothing is changed in place.

    .. math:: g' = g + \lambda\theta, \quad m' = \beta_1 m + (1-\beta_1) g', \quad
              v' = \beta_2 v + (1-\beta_2) g'^2, \quad
              \theta' = \theta - \eta\,
              \frac{m' / (1-\beta_1^t)}{\sqrt{v' / (1-\beta_2^t)} + \epsilon}

    Args:
        params: θ by name.
        gradients: g under the same names.
        spec: the learning rate η and the weight decay λ.
        state: what the step before returned, or an empty mapping.

    Returns:
        New weights, leaves that require a gradient, and the new state.

    Example:
        >>> theta, gradient = {"w": torch.ones(1)}, {"w": torch.full((1,), 3.0)}
        >>> adam_step(theta, gradient, OptimSpec(lr=0.1), {})[0]["w"]  # the first step has size η
        tensor([0.9000], requires_grad=True)

    Reference: Kingma and Ba, *Adam: A Method for Stochastic Optimization*, ICLR 2015.
    """
    count = state.get("adam count", torch.zeros(())) + 1
    correction1, correction2 = (1 - beta ** int(count) for beta in (_BETA1, _BETA2))
    weights: dict[str, Tensor] = {}
    moments: dict[str, Tensor] = {"adam count": count}
    for name, theta in params.items():
        gradient = gradients[name] + spec.weight_decay * theta
        first = state.get(f"adam first {name}", torch.zeros_like(theta))
        second = state.get(f"adam second {name}", torch.zeros_like(theta))
        first = _BETA1 * first + (1 - _BETA1) * gradient
        second = _BETA2 * second + (1 - _BETA2) * gradient.square()
        direction = (first / correction1) / ((second / correction2).sqrt() + _EPS)
        weights[name] = (theta - spec.lr * direction).requires_grad_()
        moments |= {f"adam first {name}": first, f"adam second {name}": second}
    return weights, moments
