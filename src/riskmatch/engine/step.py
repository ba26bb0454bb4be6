"""Training steps: terms, gradient, optimiser."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from riskmatch.accumulation import accumulate
from riskmatch.contract import (
    Eval,
    Memory,
    MissingFeaturesError,
    Objective,
    OptimFactory,
    OptimSpec,
    RiskFunction,
    Terms,
    checked_terms,
    classifier_of,
    cross_entropy_risks,
    featurizer_of,
    predictor,
    prepare,
    risk_function,
)
from riskmatch.contract.task import Task, find_task
from riskmatch.data.domain import Batch, NamedTensors
from riskmatch.data.sampler import Share
from riskmatch.device import device_of
from riskmatch.distributed import average_over_processes, gather_risks
from riskmatch.divergence.checks import NonFiniteError
from riskmatch.registry import PartError
from riskmatch.runs.config import Schedule
from riskmatch.validation import shown

Samples = tuple[Tensor | Mapping[str, Tensor], Tensor, Tensor | Sequence[int] | Sequence[str]]
"""A batch ``(x, y, domain)``, in any order."""


class DivergedError(RuntimeError):
    """A term of the loss or a weight is not finite."""

    def __init__(self, step: int, term: str, domain: str | None, detail: str = "") -> None:
        where = "" if domain is None else f" in domain {domain!r}"
        super().__init__(f"Step {step}: {term} is not finite{where}.{detail and ' ' + detail}")
        self.step, self.term, self.domain = step, term, domain


@dataclass(frozen=True)
class StepSettings:
    """Settings of a step that do not depend on the objective."""

    risk: RiskFunction = cross_entropy_risks
    """Per-sample loss of (logits, y)."""
    schedule: Schedule = "constant"
    """``cosine`` over the whole run, or from the end of the objective's warm-up on."""
    start: int = 0
    """First step of the run, where the cosine starts."""
    steps: int = 0
    """Last step of the run, where the cosine reaches zero."""
    clip: float | None = None
    """Maximum norm of the gradient; larger ones are scaled down."""
    amp: bool = False
    """Mixed precision: forward passes in bfloat16 where that is safe."""
    micro_batch: int = 0
    """Samples per forward pass; 0 passes a batch whole."""
    accumulate: int = 0
    """Samples with a graph at a time, see :func:`riskmatch.accumulate`; 0 takes a batch whole."""
    log_every: int = 0
    """Steps after which the terms are read from the device and checked, those of all steps since
    the last time at once; 0 is every step on a CPU, every tenth on other devices."""


@dataclass
class Phase:
    """An optimiser, from the step at which its settings were new."""

    spec: OptimSpec
    start: int
    optimizer: torch.optim.Optimizer


@dataclass(frozen=True)
class TurnNumbers:
    """The terms of a turn, and the risks of its batch, on their device."""

    step: int
    terms: Terms
    names: tuple[str, ...]
    """(m,) the domains of the batch."""
    risks: tuple[Tensor, ...]
    """(m,) the risks of each domain; empty where the method does not use risks."""

    def tensors(self, with_means: bool) -> list[Tensor]:
        """The terms and the raw penalties; also the mean risk of each domain."""
        means = [part.mean() for part in self.risks] if with_means else []
        return [*self.terms.parts.values(), *self.terms.raw.values(), *means]

    def worst_domain(self, means: Sequence[float]) -> str | None:
        """The domain with the largest of the mean risks."""
        return self.names[means.index(max(means))] if means else None

    def bad_domain(self) -> str | None:
        """The first domain with a risk that is not finite."""
        pairs = zip(self.names, self.risks, strict=False)
        return next((name for name, part in pairs if not bool(part.isfinite().all())), None)


def read_numbers(values: Sequence[Tensor]) -> list[float]:
    """The numbers of tensors with one each; of those on a device in one transfer."""
    if all(value.device.type == "cpu" for value in values):
        return [value.item() for value in values]
    wide = torch.float32 if values[0].device.type == "mps" else torch.float64
    numbers: list[float] = torch.stack([value.detach().to(wide) for value in values]).tolist()
    return numbers


WORST = "worst domain"
ALL = "all"
"""Name of the only optimiser of a method that does not name several."""


@dataclass
class Stepper:
    """A network in training, one batch at a time.

    A fresh optimiser starts whenever ``objective.optim`` returns a new value: this is how warm-up
    phases, new learning rates and resets are expressed.
    """

    model: nn.Module
    objective: Objective
    memory: Memory
    settings: StepSettings = field(default_factory=StepSettings)
    phases: dict[str, Phase] = field(default_factory=dict)
    """The optimisers by name, see :meth:`riskmatch.contract.Objective.optim`."""
    domains: tuple[str, ...] = ()
    """Names of the training domains of a run; empty outside of one."""
    distributed: nn.Module | None = None
    """Batch → risks (n,) of several processes; DistributedDataParallel averages its gradients."""
    inputs: Tensor | NamedTensors | None = None
    """A few inputs, on which the parts of the network are found."""
    lr_factor: float = 1.0
    """Of the learning rate, with the schedule ``plateau``."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Of the last step that was read: its loss, the terms and the raw penalties."""
    _unread: list[TurnNumbers] = field(default_factory=list)
    """Of the turns since the numbers were read."""
    _rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The numbers that were read, by step."""
    _last: TurnNumbers | None = None
    """The turn of the last step in which risks were taken first."""
    _worst: str | None = None
    """The worst domain of the last step that was read, with ``log_every`` above 1."""

    def __post_init__(self) -> None:
        if self.settings.accumulate:
            check_splits(self.objective, "accumulate")

    @cached_property
    def log_every(self) -> int:
        """Steps after which the terms are read from the device."""
        return self.settings.log_every or (1 if device_of(self.model).type == "cpu" else 10)

    @property
    def predictor(self) -> nn.Module:
        """What is evaluated: the network, or with its modules a method that predicts otherwise."""
        return predictor(self.model, self.objective, self.memory.modules)

    def prepare(self, x: Tensor | NamedTensors, domains: int) -> None:
        """Build the modules of the method before the first step, see :func:`contract.prepare`."""
        self.inputs = x[:2]
        prepare(self.memory, self.objective, self.model, self.inputs, domains)

    def step(self, batch: Batch | Share) -> dict[str, float]:
        """Take one step on ``batch``; return its loss, the terms and the raw penalties.

        Of a step of several turns, all terms, and the loss of the first turn. With ``log_every``
        above 1 these are of the last step whose numbers were read.
        """
        self.advance(batch)
        if self.memory.step % self.log_every == 0 or not self.numbers:
            self._read_turns()
            self._rows.clear()
        return self.numbers

    def advance(self, batch: Batch | Share) -> None:
        """Take one step on ``batch``, whose numbers :meth:`read` returns."""
        memory, turns = self.memory, self.objective.turns(self.memory.step)
        if turns < 1:
            name = type(self.objective).__name__
            raise PartError(f"{name}.turns must return 1 or more, got {turns}.")
        if self.inputs is None and isinstance(batch, Batch):
            self.prepare(batch.x, len(batch.sizes))
        self._last = None
        for turn in range(turns):
            memory.turn = turn
            self._turn(batch)
        memory.turn = 0
        memory.step += 1

    def read(self) -> list[dict[str, Any]]:
        """The numbers of every step since the last call, with its worst domain.

        Raises:
            DivergedError: a term is not finite.
        """
        self._read_turns()
        rows, self._rows = list(self._rows.values()), {}
        if rows and (worst := self.worst_domain()) is not None:
            rows[-1][WORST] = worst
        return rows

    def _read_turns(self) -> None:
        """Read and check the numbers of the turns that were not read yet, in one transfer."""
        turns, self._unread = self._unread, []
        later = self.log_every > 1  # the risks are gone when the worst domain is asked for
        values = iter(read_numbers([value for turn in turns for value in turn.tensors(later)]))
        for turn in turns:
            parts = {name: next(values) for name in turn.terms.parts}
            for name, value in parts.items():
                if not math.isfinite(value):
                    raise DivergedError(turn.step, name, turn.bad_domain())
            raw = {f"raw {name}": next(values) for name in turn.terms.raw}
            known = self._rows.get(turn.step, {})
            self.numbers = {"loss": sum(parts.values()), **parts, **raw} | known
            self._rows[turn.step] = dict(self.numbers)
            if later and (worst := turn.worst_domain([next(values) for _ in turn.risks])):
                self._rows[turn.step][WORST] = self._worst = worst

    def worst_domain(self) -> str | None:
        """Domain with the largest mean risk in the batch of the last step, if risks were taken.

        Of the last step that was read, with ``log_every`` above 1.
        """
        if self._worst is not None or self._last is None:
            return self._worst
        return self._last.worst_domain(read_numbers([part.mean() for part in self._last.risks]))

    def enter_phases(self) -> dict[str, Phase]:
        """The optimisers of the next turn: fresh ones where their settings have changed."""
        memory = self.memory
        turn = {"turn": memory.turn} if _reads_turn(type(self.objective)) else {}
        specs = self.objective.optim(memory.base, memory.step, **turn)
        named = {ALL: specs} if isinstance(specs, OptimSpec) else specs
        for name, spec in named.items():
            if (before := self.phases.get(name)) is None or spec != before.spec:
                self._check_apart(named)
                optimizer = spec.build(self.weights(name))
                self.phases[name] = Phase(spec, memory.step, optimizer)
        return {name: self.phases[name] for name in named}

    def _turn(self, batch: Batch | Share) -> None:
        """Change the weights that the next turn steps."""
        phases = self.enter_phases()
        for weight in self.weights(ALL):
            weight.grad = None
        self._backward(batch, phases)
        if self.settings.clip is not None:
            stepped = [weight for name in phases for weight in self.weights(name)]
            nn.utils.clip_grad_norm_(stepped, self.settings.clip)
        for phase in phases.values():
            for group in phase.optimizer.param_groups:
                group["lr"] = self._lr(phase) * group.get("lr_share", 1.0)
            phase.optimizer.step()
        if self.objective.overrides("after_turn"):
            modules = {**self._parts(), **dict(self.memory.modules.items())}
            with torch.no_grad():
                self.objective.after_turn(modules, self.memory)

    def _backward(self, batch: Batch | Share, phases: Mapping[str, Phase]) -> None:
        """Compute the terms of a batch and the gradient of their sum."""
        # Terms are checked at the first step, and after a warm-up.
        check = any(phase.start == self.memory.step for phase in phases.values())
        if isinstance(batch, Share):
            return self._backward_share(batch, check)
        ev, size = self.evaluate(batch), self.settings.accumulate
        if not 0 < size < len(batch.y):
            return self._terms(ev, check).backward()

        def terms_of(risks: Tensor) -> Terms:
            return self._terms(ev.with_risks(risks), check)

        pieces = batch.pieces(size)
        accumulate(self.model, lambda piece: self.evaluate(piece).risks, pieces, terms_of)

    def _backward_share(self, share: Share, check: bool) -> None:
        """Compute the terms of a batch from the risks of all processes, and their gradient."""
        assert self.distributed is not None

        def terms_of(local_risks: Tensor) -> Terms:
            local_risks = average_over_processes(local_risks, "world")[: len(share.positions)]
            risks, positions = gather_risks(local_risks, share.positions, "world")
            ev = self.evaluate(share.whole).with_risks(risks[positions.argsort()])
            return self._terms(ev, check)

        size = self.settings.accumulate
        if 0 < size < len(share.own.y):
            pieces = share.own.pieces(size)
            accumulate(self.distributed, self.distributed, pieces, terms_of)
        else:
            terms_of(self.distributed(share.own)).backward()

    def evaluate(self, batch: Batch) -> Eval:
        """The network on a batch, with the settings of a step."""
        settings = self.settings
        return Eval(
            self.model,
            batch,
            settings.risk,
            amp=settings.amp,
            micro_batch=settings.micro_batch,
            modules=dict(self.memory.modules.items()),
            start=self.memory.start,
        )

    def _terms(self, ev: Eval, check: bool) -> Terms:
        try:
            terms = self.objective(ev, self.memory)
            if check:
                checked_terms(terms, self.objective)
        except MissingFeaturesError as error:
            raise ValueError(f"{type(self.objective).__name__} {error}") from None
        except NonFiniteError as error:
            risks = ev.per_domain(ev.risks.detach())
            turn = TurnNumbers(self.memory.step, Terms({}), ev.batch.names, risks)
            domain = turn.bad_domain()
            raise DivergedError(self.memory.step, "risk", domain, str(error)) from error
        risks = ev.per_domain(ev.risks.detach()) if "risks" in ev.__dict__ else ()
        parts = {name: part.detach() for name, part in terms.parts.items()}
        raw = {name: value.detach() for name, value in terms.raw.items()}
        turn = TurnNumbers(self.memory.step, Terms(parts, raw), ev.batch.names, risks)
        self._unread.append(turn)
        self._last = self._last or (turn if risks else None)
        if self.log_every == 1:  # before the weights change
            self._read_turns()
        return terms

    def _lr(self, phase: Phase) -> float:
        schedule, total = self.settings.schedule, self.settings.steps
        if schedule == "plateau":
            return phase.spec.lr * self.lr_factor
        late = schedule == "cosine-after-warmup" and phase.spec.generation > 0
        if schedule != "cosine" and not late:
            return phase.spec.lr
        start = phase.start if late else self.settings.start
        share = (self.memory.step + 1 - start) / max(1, total - start)
        return phase.spec.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))

    def trainable(self) -> list[Tensor]:
        """Weights of the network that optimisers change."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def weights(self, name: str) -> list[Tensor]:
        """Weights that the optimiser of this name changes."""
        modules = self.memory.modules
        if name in modules:
            return [p for p in modules[name].parameters() if p.requires_grad]
        network = self.trainable()
        if name == ALL:
            return [*network, *(p for p in modules.parameters() if p.requires_grad)]
        if name == "network":
            return network
        if name not in _PARTS:
            raise PartError(
                f"{type(self.objective).__name__}.optim names {name!r}, which is none of "
                f"{', '.join(['network', *_PARTS, *modules])}."
            )
        top = {id(p) for p in self._parts()["classifier"].parameters()}
        return [p for p in network if (id(p) in top) == (name == "classifier")]

    def _parts(self) -> dict[str, nn.Module]:
        """``featurizer`` and ``classifier`` of the network."""
        assert self.inputs is not None
        classifier = classifier_of(self.model, self.inputs)
        return dict(zip(_PARTS, (featurizer_of(self.model, classifier), classifier), strict=True))

    def _check_apart(self, names: Mapping[str, OptimSpec]) -> None:
        """Refuse two optimisers of the same weights in a turn."""
        both = [name for name in _PARTS if name in names]
        if "network" in names and both:
            raise PartError(
                f"{type(self.objective).__name__}.optim steps the {both[0]} twice in a turn: by "
                f"{both[0]!r} and by 'network'. Leave one out."
            )


_PARTS = "featurizer", "classifier"


@lru_cache
def _reads_turn(method: type[Objective]) -> bool:
    """Whether the optimisers of a method depend on the turn."""
    return "turn" in inspect.signature(method.optim).parameters


def check_splits(objective: Objective, purpose: Literal["accumulate", "processes"]) -> None:
    """Raise ``ValueError`` unless the objective is a function of the risks alone."""
    needs = {
        "modules": "networks of its own",
        "turns": "several turns per batch",
        "predict": "a prediction of its own",
    }
    reasons = [text for name, text in needs.items() if objective.overrides(name)]
    if objective.needs != "risks":
        reasons = [objective.needs]
    if objective.needs_start:
        reasons.append("the network before the first step")
    if reasons:
        what, cure = {
            "accumulate": ("accumulate is", "accumulate=0"),
            "processes": ("Several processes are", "one process"),
        }[purpose]
        raise ValueError(
            f"{what} for methods on risks alone, and {type(objective).__name__} needs "
            f"{' and '.join(reasons)}: its gradient is not a sum over samples. Use {cure}."
        )


def fit(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch | Samples],
    optim: OptimSpec | OptimFactory | torch.optim.Optimizer,
    memory: Memory | None = None,
    settings: StepSettings | None = None,
    *,
    task: str | Task | None = None,
    risk: str | RiskFunction | None = None,
) -> list[dict[str, Any]]:
    """Train ``model`` with ``objective``, one step per batch.

    Args:
        model: network x → ``(features, logits)``, or x → logits if the method needs no features;
            changed in place. Inputs that are a mapping are passed as keyword arguments, and an
            output with the attribute ``logits`` is accepted, as Hugging Face has both.
        objective: a method of :mod:`riskmatch.objectives`, or one of your own.
        batches: triples ``(x, y, domain)``, for example from a ``DataLoader``, in any order: x is a
            tensor or a mapping of tensors, and domain holds an integer or a string per sample (see
            :meth:`~riskmatch.data.Batch.of`); or values of :class:`~riskmatch.data.Batch`. They
            are moved to the device of the model.
        optim: optimiser, which the objective may change from step to step: an
            :class:`~riskmatch.contract.OptimSpec`, a torch optimiser of weights of the model, or a
            function of the weights that returns one, see :meth:`~riskmatch.contract.OptimSpec.of`.
        memory: memory of an earlier call, to continue from it.
        settings: per-sample loss, schedule, clipping, mixed precision.
        task: a task, or its name, whose risk is the per-sample loss: ``"classification"``
            (default), ``"multi-label"``, ``"regression"`` or one of your own.
        risk: another per-sample loss: ``"cross-entropy"``, ``"binary-cross-entropy"``,
            ``"squared"``, ``"huber"``, or a function of ``(outputs, y)`` that returns (n,).

    Returns:
        For every step: the loss, its terms, the raw penalties, and the name of the domain of the
        batch with the largest mean risk.

    Raises:
        TypeError: an argument, or an entry of ``batches``, has another type.
        ValueError: there is no batch, or the parts of one do not fit together.

    Example:
        >>> from riskmatch.objectives import VREx
        >>> from torch.utils.data import DataLoader
        >>> samples = [(torch.randn(2) + k % 3, k % 2, "abc"[k % 3]) for k in range(60)]
        >>> loader = DataLoader(samples, batch_size=20, shuffle=True)
        >>> optim = lambda weights: torch.optim.RAdam(weights, lr=0.01)
        >>> history = fit(nn.Linear(2, 2), VREx(weight=1.0), loader, optim)
        >>> first = history[0]
        >>> sorted(first)
        ['loss', 'penalty', 'raw penalty', 'risk', 'worst domain']
        >>> first["worst domain"] in "abc"
        True
    """
    if not isinstance(objective, Objective):
        raise TypeError(
            "objective must be an Objective, as riskmatch.objectives.RDM() is, got "
            f"{objective!r}. riskmatch.train takes names."
        )
    if not isinstance(optim, OptimSpec | torch.optim.Optimizer) and not callable(optim):
        raise TypeError(
            "optim must be a riskmatch.contract.OptimSpec, as OptimSpec('adam', lr=1e-3) is, a "
            "torch optimiser, or a function of the weights that returns one, got "
            f"{shown(optim)}."
        )
    memory, settings = memory or Memory(), settings or StepSettings()
    if task is not None:
        settings = replace(settings, risk=(find_task(task) if isinstance(task, str) else task).risk)
    if risk is not None:
        settings = replace(settings, risk=risk_function(risk))
    stepper = Stepper(model.train(), objective, memory, settings)
    weights = stepper.trainable()
    if not weights:
        raise ValueError("The model has no weights to train: none requires a gradient.")
    memory.base = optim if isinstance(optim, OptimSpec) else OptimSpec.of(optim, weights)
    history: list[dict[str, Any]] = []
    for entry in batches:
        stepper.advance(_batch(entry, weights[0].device))
        if memory.step % stepper.log_every == 0:
            history += stepper.read()
    history += stepper.read()
    if not history:
        raise ValueError("batches is empty: fit needs a batch. An iterator can be read only once.")
    return history


def _batch(entry: Batch | Samples, device: torch.device) -> Batch:
    if not isinstance(entry, Batch):
        if not isinstance(entry, tuple | list) or len(entry) != 3:
            raise TypeError(
                "Each batch must be (x, y, domain) or a riskmatch.data.Batch, got "
                f"{type(entry).__name__}"
                f"{f' of {len(entry)}' if isinstance(entry, tuple | list) else ''}."
            )
        entry = Batch.of(*entry)
    return entry if entry.y.device == device else entry.to(device)
