"""The training loop of a run: steps, evaluations, checkpoints, interrupts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import Assembly
from riskmatch.engine.device import peak_memory, reset_peak_memory
from riskmatch.engine.evaluate import predict, scores
from riskmatch.engine.gradients import SAMPLES, gradient_norms
from riskmatch.engine.step import DivergedError
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.records import Evaluation


@dataclass(frozen=True)
class Progress:
    """State of a run after a step."""

    step: int
    steps: int
    loss: float
    worst_domain: str | None
    """Domain with the largest mean risk in the batch; None if the method does not use risks."""
    seconds_left: float


STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals that end a run after a checkpoint; clusters send the last two."""
Keep = Literal["best", "all"]
"""Checkpoints that are kept: the last two and those of the best steps, or all."""
AFTER_WARMUP = "train-val-after-warmup"
"""Name of the best step of those at which the method acts."""
OnStep = Callable[[Progress], None]
"""Called after every step."""
OnEvaluation = Callable[[RunConfig, Evaluation], None]
"""Called with the configuration of a run and each of its evaluations, once it is on disk."""


@dataclass
class Session:
    """The part of a run that this process trains."""

    folder: Path
    config: RunConfig
    assembly: Assembly
    device: torch.device
    write_predictions: bool
    checkpoint_every: int | None = None
    keep: Keep = "best"
    on_step: OnStep | None = None
    on_evaluation: OnEvaluation | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the last step returned."""
    seconds_before: float = 0.0
    """Seconds that earlier processes took."""
    started: float = field(default_factory=time.monotonic)
    first_step: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    """Evaluations so far."""
    evaluated: int = 0
    """Step of the last evaluation on disk, or of the end of the ERM phase."""
    saved: int = 0
    """Step of the last checkpoint."""
    step_seconds: float = 0.0
    """Seconds inside steps since the last evaluation."""
    steps_taken: int = 0
    """Steps since the last evaluation."""

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return self.assembly.stepper.memory.step

    @property
    def seconds(self) -> float:
        """Seconds since the run started, over all its processes."""
        return self.seconds_before + time.monotonic() - self.started

    def run(self) -> None:
        """Train to the last step; an interrupt is handled between two steps."""
        with deferred_interrupts() as raise_interrupt:
            while True:
                self._evaluate_or_save()
                if self.step >= self.config.steps:
                    return
                begun = time.monotonic()
                self.numbers = self.assembly.stepper.step(next(self.assembly.sampler))
                self.step_seconds += time.monotonic() - begun
                self.steps_taken += 1
                try:
                    if self.on_step is not None:
                        self.on_step(self._progress())
                    raise_interrupt()
                except KeyboardInterrupt:
                    self._save()
                    raise

    def _evaluate_or_save(self) -> None:
        """Evaluate, or write a checkpoint, if it is due at this step."""
        last = self.step == self.config.steps
        if (last or self._is_due(self.config.eval_every)) and self.evaluated < self.step:
            evaluation = self._evaluate()
            self.evaluations.append(evaluation)
            self._save()  # first: an evaluation on disk has a checkpoint to continue from
            records.append(self.folder, evaluation)
            self.evaluated, self.step_seconds, self.steps_taken = self.step, 0.0, 0
            if self.on_evaluation is not None:
                self.on_evaluation(self.config, evaluation)
            reset_peak_memory(self.device)
        elif self._is_due(self.checkpoint_every) and self.saved < self.step:
            self._save()

    def _is_due(self, every: int | None) -> bool:
        return self.step > 0 and bool(every) and self.step % (every or 1) == 0

    def _save(self) -> None:
        stepper = self.assembly.stepper
        for name, weight in stepper.model.named_parameters():
            if not bool(torch.isfinite(weight).all()):
                raise DivergedError(self.step, f"the weight {name}", None)
        notes: dict[str, Any] = {
            "numbers": dict(self.numbers),
            "seconds": self.seconds,
            "input_shape": list(self.assembly.input_shape),
        }
        snapshot = checkpoint.capture(stepper, self.assembly.sampler, notes)
        kept = None if self.keep == "all" else self.best_steps().values()
        checkpoint.save(self.folder / checkpoint.FOLDER, self.config.id, snapshot, kept)
        self.saved = self.step

    def best_steps(self) -> dict[str, int]:
        """Steps that selection by ``train-val`` chooses so far: of all, and after the warm-up."""
        record = records.RunRecord(self.config, tuple(self.evaluations))
        steps = {"train-val": record.best_step(), AFTER_WARMUP: record.best_step(after_warmup=True)}
        if steps[AFTER_WARMUP] == steps["train-val"]:
            del steps[AFTER_WARMUP]
        return {name: step for name, step in steps.items() if step is not None}

    def _evaluate(self) -> Evaluation:
        stepper, peak = self.assembly.stepper, peak_memory(self.device)
        views = self.assembly.validation_views(self.step)
        predicted = predict(stepper.model, self.assembly.splits, stepper.settings.risk, views)
        if self.write_predictions:
            predictions.write(self.folder, self.step, predicted)
        by_domain = scores(predicted)
        numbers = dict(self.numbers)
        loss = numbers.pop("loss")
        numbers.pop("worst domain", None)
        raw = {name: value for name, value in numbers.items() if name.startswith("raw ")}
        return Evaluation(
            step=self.step,
            scores=by_domain,
            loss=loss,
            terms={name: value for name, value in numbers.items() if name not in raw},
            raw={name.removeprefix("raw "): value for name, value in raw.items()},
            worst_domain=max(stepper.domains, key=lambda name: by_domain[name]["train"].risk),
            seconds=self.seconds,
            seconds_per_step=self.step_seconds / max(1, self.steps_taken),
            peak_memory=peak,
            gradients=self._gradients(),
        )

    def _gradients(self) -> dict[str, float]:
        """Norms of the gradients of risk and penalty, where the method has one and acts."""
        start = acts_from(self.config)
        if start is None or self.step < start or not self.config.hparams.get("weight"):
            return {}
        samples = min(SAMPLES, self.config.batch_size or SAMPLES)
        if self.config.accumulate:
            samples = min(samples, self.config.accumulate // len(self.assembly.stepper.domains))
        return gradient_norms(self.assembly.stepper, self.assembly.splits, max(2, samples))

    def _progress(self) -> Progress:
        steps, worst = self.config.steps, self.numbers.get("worst domain")
        seconds_per_step = (time.monotonic() - self.started) / (self.step - self.first_step)
        return Progress(
            self.step,
            steps,
            self.numbers["loss"],
            None if worst is None else self.assembly.stepper.domains[int(worst)],
            seconds_per_step * (steps - self.step),
        )


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Defer the first Ctrl-C, SIGTERM or SIGHUP until the yielded function is called.

    It then raises ``KeyboardInterrupt``; a second signal acts at once. Outside the main thread,
    which alone receives signals, nothing changes.
    """
    interrupted = False

    def raise_interrupt() -> None:
        if interrupted:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield raise_interrupt
        return
    before = {
        number: handler
        for number in STOP_SIGNALS
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN or number == signal.SIGINT
    }  # nohup ignores SIGHUP

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        restore()

    for number in before:
        signal.signal(number, defer)
    try:
        yield raise_interrupt
    finally:
        restore()
