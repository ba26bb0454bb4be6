"""What a method is: a few hyper-parameters and a formula for one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from riskmatch.contract.evaluation import Eval
from riskmatch.contract.optim import OptimSpec
from riskmatch.registry import PartError
from riskmatch.space import TRAINING, Tuned, check_valid
from riskmatch.terms import Terms as Terms
from riskmatch.validation import plain

Needs = Literal["risks", "logits", "features", "gradients", "other data", "other weights"]
Idea = Literal["risks", "features", "gradients", "adversarial", "data", "weights"]


class Shape(NamedTuple):
    """What the networks of a method are built for."""

    features: int
    """Number of features; 0 if the network returns logits alone."""
    outputs: int
    """Number of outputs of the network."""
    domains: int
    """Number of training domains."""


@dataclass
class Memory:
    """What an objective may read and what it carries from step to step.

    The engine sets ``step`` and ``turn`` and checkpoints the whole: a resumed run sees the same
    memory.
    """

    base: OptimSpec = field(default_factory=OptimSpec)
    """The optimiser as configured, before the objective's own changes."""
    step: int = 0
    """How many steps have been taken."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """The objective's own tensors, by name."""
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))
    """The source of every random choice of the objective, on the CPU."""
    turn: int = 0
    """Number of the call within the step, see :meth:`Objective.turns`."""
    modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    """The networks of the method, from the first step on."""
    shape: Shape | None = None
    """What they were built for."""
    start: nn.Module | None = None
    """The network before the first step, where the method needs it."""

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
    a search range and valid values with :func:`~riskmatch.space.tuned`. One with networks of its
    own declares them in :meth:`modules`; the engine builds, places, steps and checkpoints them.
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
    domainbed_hparams: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """DomainBed's hyper-parameters that are no field of the method under the same name or under
    ``tuned(…, domainbed=NAME)``: the field of the run, or a text that says why there is none."""
    needs: ClassVar[Needs] = "risks"
    """The most demanding thing that the formula reads."""
    needs_start: ClassVar[bool] = False
    """Whether it reads ``ev.start``, for which the network is copied before the first step."""
    needs_copy: ClassVar[bool] = False
    """Whether it trains ``ev.copy``, a copy of the network that starts as the network does. It is
    the module ``copy``."""
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

    @property
    def averages_from(self) -> int | None:
        """Steps after which weights enter the mean that is evaluated and shipped; None for none."""
        return None

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """Networks of its own by name, in ``ev.modules`` at every step."""
        return {}

    def turns(self, step: int) -> int:
        """Number of calls on the batch of a step; ``memory.turn`` tells which one it is."""
        return 1

    def optim(self, base: OptimSpec, step: int) -> OptimSpec | Mapping[str, OptimSpec]:
        """The optimiser of step ``step``, given the configured one.

        One value is that of the network and all modules together. A mapping has an optimiser by
        name: ``network``, or its parts ``featurizer`` and ``classifier``, or a module's. A name
        that is absent is not stepped; its optimiser keeps its state. Where turns differ, the
        method declares a third argument ``turn: int = 0``.
        """
        return base

    @abstractmethod
    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step, or of one turn of it."""

    def after_turn(  # noqa: B027, most methods have nothing to do
        self, modules: Mapping[str, nn.Module], memory: Memory
    ) -> None:
        """Change weights in place after a turn, without a gradient: projections and copies.

        Args:
            modules: its modules, and ``featurizer`` and ``classifier`` of the network.
            memory: its memory.
        """

    def predict(self, ev: Eval) -> Tensor:
        """(n, c) the outputs of the trained model, for inputs without labels and domains.

        A method that overrides it is evaluated, saved and exported with its modules.
        """
        return ev.logits

    @classmethod
    def overrides(cls, name: str) -> bool:
        """Whether the method has an own ``modules``, ``turns``, ``after_turn`` or ``predict``."""
        return getattr(cls, name) is not getattr(Objective, name)


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
