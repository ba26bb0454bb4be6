"""The training loop of a run: steps, evaluations, checkpoints, interrupts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any, Literal

import torch

from riskmatch.data import OnProgress
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import Assembly
from riskmatch.engine.device import peak_memory, reset_peak_memory
from riskmatch.engine.evaluate import EvaluatedSamples, scores
from riskmatch.engine.gradients import SAMPLES, gradient_norms
from riskmatch.engine.step import DivergedError
from riskmatch.engine.timing import Timing
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
    """Estimate for the steps and evaluations that remain."""


STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals that end a run after a checkpoint; clusters send the last two."""
Keep = Literal["best", "all"]
"""Checkpoints that are kept: the last two and those of the best steps, or all."""
AFTER_WARMUP = "train-val-after-warmup"
"""Name of the best step of those at which the method acts."""
EVALUATING = "evaluating"
"""Task of which ``on_progress`` is told during an evaluation."""
FLAT = 1e-3
"""Relative decrease of the validation risk that counts as one."""
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
    on_progress: OnProgress | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the last step returned."""
    seconds_before: float = 0.0
    """Seconds that earlier processes took."""
    started: float = field(default_factory=time.monotonic)
    timing: Timing = field(default_factory=Timing)
    """Seconds of the steps and evaluations of this process."""
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
                if self.step >= self.config.steps or self.stops_early:
                    return
                begun = time.monotonic()
                batch = next(self.assembly.sampler)
                self.numbers = self.assembly.stepper.step(batch)
                seconds = time.monotonic() - begun
                self.step_seconds += seconds
                self.steps_taken += 1
                self.timing.add_step(seconds, len(batch.y))
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
            begun = time.monotonic()
            evaluation = self._evaluate()
            self.evaluations.append(evaluation)
            self._save()  # first: an evaluation on disk has a checkpoint to continue from
            records.append(self.folder, evaluation)
            self.timing.add_evaluation(time.monotonic() - begun)
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
        predicted = self._samples.predict(stepper.model, stepper.settings.risk, views, self._report)
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

    @cached_property
    def _samples(self) -> EvaluatedSamples:
        """The samples that are evaluated."""
        config = self.config
        return EvaluatedSamples.of(self.assembly.splits, config.eval_fraction, config.trial)

    def _report(self, done: int) -> None:
        """Report how many samples of an evaluation are done."""
        if self.on_progress is not None:
            self.on_progress(EVALUATING, done, len(self._samples))

    @property
    def stops_early(self) -> bool:
        """Whether the validation risk has been flat for as long as the run is patient.

        It is when the lowest of the last ``patience`` evaluations is not below the lowest before
        them by a thousandth. Evaluations count from the end of the warm-up.
        """
        patience, warmup = self.config.patience, self.config.hparams.get("warmup", 0)
        start = warmup if warmup < self.config.steps else 0
        risks = [self._validation_risk(e) for e in self.evaluations if e.step > start]
        if not patience or len(risks) <= patience or self.step >= self.config.steps:
            return False
        return not min(risks[-patience:]) < (1 - FLAT) * min(risks[:-patience])

    def _validation_risk(self, evaluation: Evaluation) -> float:
        """Mean over the training domains."""
        domains = self.assembly.stepper.domains
        return fmean(evaluation.scores[name]["val"].risk for name in domains)

    def _progress(self) -> Progress:
        steps, every = self.config.steps, self.config.eval_every
        worst = self.numbers.get("worst domain")
        evaluations = -(-steps // every) - (self.step - 1) // every  # this step's is still due
        return Progress(
            self.step,
            steps,
            self.numbers["loss"],
            None if worst is None else self.assembly.stepper.domains[int(worst)],
            self.timing.seconds(steps - self.step, evaluations, len(self._samples)),
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
