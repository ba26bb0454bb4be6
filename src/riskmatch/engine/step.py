"""One step of training: terms, gradient, optimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from riskmatch.contract import (
    Eval,
    Memory,
    Objective,
    OptimSpec,
    RiskFunction,
    Terms,
    cross_entropy_risks,
)
from riskmatch.data.batch import Batch
from riskmatch.divergence.checks import NonFiniteError
from riskmatch.runs.config import Schedule


class DivergedError(RuntimeError):
    """A term stopped being a number."""

    def __init__(self, step: int, term: str, domain: str | int | None, detail: str = "") -> None:
        where = "" if domain is None else f" in domain {domain!r}"
        super().__init__(f"Step {step}: {term} is not finite{where}.{detail and ' ' + detail}")
        self.step, self.term, self.domain = step, term, domain


@dataclass(frozen=True)
class StepSettings:
    """How every step is taken, whatever the objective."""

    risk: RiskFunction = cross_entropy_risks
    """Per-sample loss of (logits, y)."""
    schedule: Schedule = "constant"
    """``cosine`` over the whole run, or from the end of the objective's warm-up on."""
    start: int = 0
    """The first step of the run; the cosine starts there."""
    steps: int = 0
    """The last step of the run; the cosine reaches zero there."""
    clip: float | None = None
    """Largest norm of the gradient; longer ones are shortened to it."""
    amp: bool = False
    """Forward passes in bfloat16 where that is safe."""
    micro_batch: int = 0
    """Samples per forward pass; 0 passes a batch whole."""


@dataclass
class Stepper:
    """A model in training: takes a batch, changes the weights, reports numbers.

    A fresh optimiser starts whenever ``objective.optim`` returns a new value, which is how warm-up
    phases, new learning rates and resets are expressed.
    """

    model: nn.Module
    objective: Objective
    memory: Memory
    settings: StepSettings = field(default_factory=StepSettings)
    spec: OptimSpec | None = None
    """The current optimiser's value; None before the first step."""
    optimizer: torch.optim.Optimizer | None = None
    phase_start: int = 0
    """The step at which the current optimiser started."""
    domains: tuple[str, ...] = ()
    """The names of the domains of a batch, where they have any."""

    def step(self, batch: Batch) -> dict[str, float]:
        """Take one step on ``batch``; returns the loss, its terms and the raw penalties."""
        optimizer = self.enter_phase()
        settings = self.settings
        ev = Eval(
            self.model, batch, settings.risk, amp=settings.amp, micro_batch=settings.micro_batch
        )
        terms = self._terms(ev)
        optimizer.zero_grad(set_to_none=True)
        terms.loss.backward()
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.trainable(), self.settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = self._lr()
        optimizer.step()
        self.memory.step += 1
        return _numbers(terms, ev)

    def enter_phase(self) -> torch.optim.Optimizer:
        """The optimiser of the coming step, a fresh one where its value has changed."""
        spec = self.objective.optim(self.memory.base, self.memory.step)
        if self.optimizer is None or spec != self.spec:
            self.spec, self.phase_start = spec, self.memory.step
            self.optimizer = spec.build(self.trainable())
        return self.optimizer

    def _terms(self, ev: Eval) -> Terms:
        try:
            terms = self.objective(ev, self.memory)
        except NonFiniteError as error:
            domain = self._bad_domain(ev)
            raise DivergedError(self.memory.step, "risk", domain, str(error)) from error
        for name, part in terms.parts.items():
            if not math.isfinite(part.item()):
                raise DivergedError(self.memory.step, name, self._bad_domain(ev))
        return terms

    def _lr(self) -> float:
        assert self.spec is not None
        schedule, total = self.settings.schedule, self.settings.steps
        late = schedule == "cosine-after-warmup" and self.spec.generation > 0
        if schedule != "cosine" and not late:
            return self.spec.lr
        start = self.phase_start if late else self.settings.start
        share = (self.memory.step + 1 - start) / max(1, total - start)
        return self.spec.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))

    def trainable(self) -> list[Tensor]:
        """The weights that the optimiser changes."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def _bad_domain(self, ev: Eval) -> str | int | None:
        """The first domain with a risk that is not finite: its name, or else its number."""
        for domain, risks in enumerate(ev.per_domain(ev.risks.detach())):
            if not bool(torch.isfinite(risks).all()):
                return self.domains[domain] if self.domains else domain
        return None


def _numbers(terms: Terms, ev: Eval) -> dict[str, float]:
    named: dict[str, Mapping[str, Tensor]] = {"": terms.parts, "raw ": terms.raw}
    out = {"loss": terms.loss.item()}
    for prefix, values in named.items():
        out.update({prefix + name: value.item() for name, value in values.items()})
    if "risks" in ev.__dict__:
        out["worst domain"] = float(ev.domain_risks.argmax())
    return out
