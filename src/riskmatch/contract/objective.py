"""What a method is: a few hyper-parameters and a formula for one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from riskmatch.contract.evaluation import Eval, Params
from riskmatch.registry import PartError
from riskmatch.space import TRAINING, Tuned, check_valid
from riskmatch.terms import Terms as Terms
from riskmatch.validation import check_option, plain

Needs = Literal["risks", "logits", "features", "gradients", "other data", "other weights"]
Idea = Literal["risks", "features", "gradients", "adversarial", "data", "weights"]


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
    factory: OptimFactory | None = field(default=None, repr=False)
    """Function that makes the optimiser, for the kind ``factory``."""

    def __post_init__(self) -> None:
        check_option("optimiser", self.kind, (*_OPTIMISERS, "factory"))
        if self.momentum and self.kind != "sgd":
            raise ValueError(f"momentum is for sgd, got momentum={self.momentum} for {self.kind}.")

    @classmethod
    def of(cls, factory: OptimFactory, params: list[Tensor]) -> OptimSpec:
        """The optimiser that ``factory`` makes of ``params``.

        Its learning rate is that of its first group of weights. A method that starts a fresh
        optimiser after its warm-up calls the factory again; where it, or a schedule, sets another
        learning rate, those of all groups are multiplied by the same factor.

        Example:
            >>> OptimSpec.of(lambda params: torch.optim.RAdam(params, lr=0.1), [torch.zeros(2)]).lr
            0.1
        """
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
            >>> OptimSpec(lr=1e-3).after_warmup(step=5, warmup=4, lr=1e-4)
            OptimSpec(kind='adam', lr=0.0001, weight_decay=0.0, generation=1, momentum=0.0)
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
        more = {"momentum": self.momentum} if self.kind == "sgd" else {}
        return _OPTIMISERS[self.kind](params, lr=self.lr, weight_decay=self.weight_decay, **more)


_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


@lru_cache(maxsize=8)  # asked for in every step
def _second_phase(spec: OptimSpec, lr: float) -> OptimSpec:
    return replace(spec, lr=lr, generation=1)


@dataclass
class Memory:
    """What an objective may read and what it carries from step to step.

    The engine sets ``step`` and checkpoints the whole: a resumed run sees the same memory.
    """

    base: OptimSpec = field(default_factory=OptimSpec)
    """The optimiser as configured, before the objective's own changes."""
    step: int = 0
    """How many steps have been taken."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """The objective's own tensors, by name."""
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))
    """The source of every random choice of the objective, on the CPU."""

    def recall(self, name: str, initial: Tensor) -> Tensor:
        """What ``state`` holds under ``name``, or ``initial`` where it holds nothing yet.

        The shape of ``initial`` is the shape expected.
        """
        kept = self.state.get(name, initial)
        if kept.shape != initial.shape:
            raise ValueError(
                f"The state {name!r} was kept for shape {tuple(kept.shape)}, and this batch needs "
                f"{tuple(initial.shape)}. Start a new Memory for another network or other data."
            )
        return kept.to(initial)

    def recall_domains(self, name: str, domains: Sequence[str], initial: Tensor) -> Tensor:
        """(m, …) the state that :meth:`keep_domains` kept for each of ``domains``.

        A domain without state starts with its row of ``initial`` (m, …).

        Example:
            >>> memory = Memory()
            >>> memory.keep_domains("seen", ["photo", "sketch"], torch.tensor([3.0, 5.0]))
            >>> memory.recall_domains("seen", ["sketch", "cartoon"], torch.zeros(2))
            tensor([5., 0.])
        """
        rows = zip(domains, initial, strict=True)
        return torch.stack([self.recall(f"{name}/{domain}", row) for domain, row in rows])

    def keep_domains(self, name: str, domains: Sequence[str], values: Tensor) -> None:
        """Keep a row of ``values`` (m, …) for each of ``domains``."""
        for domain, value in zip(domains, values.detach(), strict=True):
            self.state[f"{name}/{domain}"] = value

    def domains(self, name: str) -> list[str]:
        """The domains with state under ``name``, sorted."""
        prefix = f"{name}/"
        return sorted(key.removeprefix(prefix) for key in self.state if key.startswith(prefix))


@dataclass(frozen=True)
class Objective(ABC):
    """A frozen dataclass whose fields are a method's hyper-parameters.

    A method implements :meth:`__call__`, says what it ``needs``, and gives each field a default,
    a search range and valid values with :func:`~riskmatch.space.tuned`. Nothing else: no network,
    no optimiser, no data.
    """

    title: ClassVar[str] = ""
    """Its name in tables; the name of the class if it is empty."""
    idea: ClassVar[Idea] = "risks"
    """What it matches between domains, or changes."""
    plain: ClassVar[bool] = False
    """Whether it is ERM at every step, without anything that is switched on."""
    variants: ClassVar[tuple[str, ...]] = ()
    """Fields of which another value than the default makes a method with a name of its own."""
    variant_titles: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Titles of such methods, by these values, separated by spaces."""
    domainbed: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """DomainBed's names of it, each with the fields that the name fixes; its title if empty."""
    needs: ClassVar[Needs] = "risks"
    """The most demanding thing that the formula reads."""
    citation: ClassVar[str]
    """Authors, title, venue, year."""
    training: ClassVar[Mapping[str, Tuned]] = MappingProxyType(TRAINING)
    """Defaults and ranges of the learning rate, batch size, weight decay and dropout."""

    def __post_init__(self) -> None:
        """Refuse values that are not valid; a method that overrides this calls it."""
        for item in fields(self):
            if isinstance(value := getattr(self, item.name), np.generic):
                object.__setattr__(self, item.name, plain(value))
        check_valid(self, type(self).__name__)

    @property
    def min_samples(self) -> int:
        """The fewest samples of each domain in a batch with which the method acts."""
        return 1

    @property
    def min_domains(self) -> int:
        """The fewest training domains with which its hyper-parameters make sense."""
        return 1

    def optim(self, base: OptimSpec, step: int) -> OptimSpec:
        """The optimiser of step ``step``, given the configured one."""
        return base

    @abstractmethod
    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""


def checked_terms(terms: object, objective: object) -> Terms:
    """What an objective returned.

    Raises:
        PartError: it is not :class:`Terms`, or their sum is no loss to train on.
    """
    fault = ""
    if not isinstance(terms, Terms):
        fault = f"{type(terms).__name__}; return Terms({{'risk': ev.risk, …}})"
    else:
        for name, part in terms.parts.items():
            if not isinstance(part, Tensor):
                fault = f"{type(part).__name__} as the term '{name}'; keep it a tensor"
            elif part.ndim:
                fault = f"a term '{name}' of shape {tuple(part.shape)}; reduce it, by .mean() say"
        if not terms.parts:
            fault = "no terms; return at least the risk, Terms({'risk': ev.risk})"
        elif not fault and not terms.loss.requires_grad:
            fault = "terms that do not depend on the weights; return them with their graph"
    if fault:
        raise PartError(
            f"{type(objective).__name__} must return Terms whose parts are tensors with one number "
            f"each, got {fault}."
        )
    assert isinstance(terms, Terms)
    return terms


_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


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
