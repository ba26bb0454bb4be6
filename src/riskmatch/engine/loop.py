"""The training loop of a run: steps, evaluations, checkpoints, interrupts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from torch import Tensor

from riskmatch.data import OnProgress
from riskmatch.data.domain import Batch, Domain
from riskmatch.data.sampler import Share, stream
from riskmatch.device import peak_memory, reset_peak_memory
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import Assembly
from riskmatch.engine.averaging import WeightAverage
from riskmatch.engine.evaluate import (
    GRADIENT_SAMPLES,
    EvaluatedSamples,
    gradient_norms,
    predict,
    scores,
)
from riskmatch.engine.parallel import ALONE, Processes, deferred_interrupts
from riskmatch.engine.step import DivergedError
from riskmatch.pace import Pace
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.scores import Evaluation, Split
from riskmatch.selection import best_step


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


Keep = Literal["best", "all"]
"""Checkpoints that are kept: the last two and those of the best steps, or all."""
AFTER_WARMUP = "train-val-after-warmup"
"""Name of the best step of those at which the method acts."""
EVALUATING = "evaluating"
"""Progress task name of an evaluation."""
FLAT = 1e-3
"""Smallest relative decrease of the validation risk that counts."""
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
    processes: Processes = ALONE
    checkpoint_every: int | None = None
    keep: Keep = "best"
    on_step: OnStep | None = None
    on_evaluation: OnEvaluation | None = None
    on_progress: OnProgress | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What the last step returned."""
    seconds_before: float = 0.0
    """Seconds that earlier processes took."""
    started: float = field(default_factory=time.monotonic)
    step_pace: Pace = field(default_factory=Pace)
    evaluation_pace: Pace = field(default_factory=Pace)
    """Of the steps and evaluations of this process."""
    batch: int = 1
    """Samples of the last batch, over all processes."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Evaluations so far."""
    evaluated: int = 0
    """Step of the last evaluation on disk, or of the end of the ERM phase."""
    saved: int = 0
    """Step of the last checkpoint."""
    averaged: dict[str, Tensor] | None = None
    """State dict of the averaged network, if it was evaluated at this step."""
    step_seconds: float = 0.0
    """Seconds inside steps since the last evaluation."""
    steps_taken: int = 0
    """Steps since the last evaluation."""

    @cached_property
    def average(self) -> WeightAverage:
        """Average of the weights over steps."""
        return WeightAverage(self.config)

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
        averaged = self.processes.gradients_averaged(self.assembly.stepper)
        with deferred_interrupts() as interrupted, averaged:
            while True:
                self._evaluate_or_save()
                if self.step >= self.config.steps or self.stops_early:
                    return
                begun = time.monotonic()
                batch = self._next_batch()
                self.numbers = self.assembly.stepper.step(batch)
                self.averaged = None
                self.average.add(self.step, self.assembly.stepper.model)
                seconds = time.monotonic() - begun
                self.step_seconds += seconds
                self.steps_taken += 1
                whole = batch.whole if isinstance(batch, Share) else batch
                self.batch = len(whole.y)
                self.step_pace.add(seconds)
                try:
                    if self.on_step is not None:
                        self.on_step(self._progress())
                    if self.processes.any(interrupted()):
                        raise KeyboardInterrupt
                except KeyboardInterrupt:
                    self._save()
                    raise

    def _next_batch(self) -> Batch | Share:
        """Draw the next batch, or this process's share of it."""
        rank, count = self.processes.rank, self.processes.count
        if count == 1:
            return next(self.assembly.sampler)
        # For dropout: each process has a stream of its own that needs no state in checkpoints.
        torch.manual_seed(stream("process", self.config.seed, self.step, rank).initial_seed())
        return self.assembly.sampler.next_share(rank, count)

    def _evaluate_or_save(self) -> None:
        """Evaluate, or write a checkpoint, if it is due at this step."""
        last = self.step == self.config.steps
        if (last or self._is_due(self.config.eval_every)) and self.evaluated < self.step:
            begun = time.monotonic()
            evaluation = self._evaluate()
            self.evaluations.append(evaluation)
            self._save()  # first: an evaluation on disk has a checkpoint to continue from
            if self.processes.main:
                records.append(self.folder, evaluation)
            self.evaluation_pace.add(time.monotonic() - begun)
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
        self.saved = self.step
        if not self.processes.main:
            return
        notes: dict[str, Any] = {
            "numbers": dict(self.numbers),
            "seconds": self.seconds,
            "input_shape": list(self.assembly.input_shape),
        }
        average = None if self.config.average == "none" else self.average
        snapshot = checkpoint.capture(stepper, self.assembly.sampler, notes, average, self.averaged)
        kept = None if self.keep == "all" else self.best_steps().values()
        checkpoint.save(self.folder / checkpoint.FOLDER, self.config.id, snapshot, kept)

    def best_steps(self) -> dict[str, int]:
        """Steps that selection by ``train-val`` chooses so far: of all, and after the warm-up."""
        record = records.RunRecord(self.config, tuple(self.evaluations))
        steps = {"train-val": best_step(record), AFTER_WARMUP: best_step(record, after_warmup=True)}
        if steps[AFTER_WARMUP] == steps["train-val"]:
            del steps[AFTER_WARMUP]
        return {name: step for name, step in steps.items() if step is not None}

    def _evaluate(self) -> Evaluation:
        stepper, peak = self.assembly.stepper, peak_memory(self.device)
        if self.config.average == "swad":
            self.average.observe(self.step, self._raw_validation_risk())
        with self.average.applied(stepper.model, self.assembly.sampler) as self.averaged:
            predicted = self._predict()
        if self.write_predictions and self.processes.main:
            predictions.write(self.folder, self.step, predicted)
        by_domain = scores(predicted)
        numbers = dict(self.numbers)
        loss = numbers.pop("loss")
        numbers.pop("worst domain", None)  # in checkpoints of version 0.1
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
            gradients=self._gradients() if self.processes.main else {},
        )

    def _predict(self) -> dict[str, dict[Split, Predictions]]:
        """Predictions on all samples that are evaluated, each split computed by one process."""
        stepper, views = self.assembly.stepper, self.assembly.validation_views(self.step)
        predict = self._own_samples.predict
        shares = self.processes.gather(
            predict(stepper.model, stepper.settings.risk, views, self._report)
        )
        merged = {
            (n, s): part for share in shares for n, p in share.items() for s, part in p.items()
        }
        return {
            name: {split: merged[name, split] for split in splits}
            for name, splits in self._samples.domains.items()
        }

    def _raw_validation_risk(self) -> float:
        """Mean over the training domains of the risk of the weights that are not averaged."""
        stepper, views = self.assembly.stepper, self.assembly.validation_views(self.step)
        domains: dict[str, Mapping[Split, Domain]] = {
            name: {"val": self._samples.domains[name]["val"]} for name in stepper.domains
        }
        predicted = predict(stepper.model, domains, stepper.settings.risk, views)
        return fmean(splits["val"].risk for splits in scores(predicted).values())

    def _gradients(self) -> dict[str, float]:
        """Norms of the gradients of risk and penalty, once the penalty is active."""
        start = acts_from(self.config)
        if start is None or self.step < start or not self.config.hparams.get("weight"):
            return {}
        samples = min(GRADIENT_SAMPLES, self.config.batch_size or GRADIENT_SAMPLES)
        if self.config.accumulate:
            samples = min(samples, self.config.accumulate // len(self.assembly.stepper.domains))
        return gradient_norms(self.assembly.stepper, self.assembly.splits, max(2, samples))

    @cached_property
    def _samples(self) -> EvaluatedSamples:
        """The samples that are evaluated."""
        config = self.config
        return EvaluatedSamples.of(self.assembly.splits, config.eval_fraction, config.trial)

    @cached_property
    def _own_samples(self) -> EvaluatedSamples:
        """Those that this process evaluates."""
        return self._samples.share(self.processes.rank, self.processes.count)

    def _report(self, done: int) -> None:
        """Report how many samples of an evaluation are done."""
        if self.on_progress is not None:
            self.on_progress(EVALUATING, done, len(self._own_samples))

    @property
    def stops_early(self) -> bool:
        """Whether the validation risk has been flat for as long as the run is patient.

        Also when the window of the average ``swad`` has ended.

        It is when the lowest of the last ``patience`` evaluations is not below the lowest before
        them by a thousandth. Evaluations count from the end of the warm-up.
        """
        if self.average.ended and self.step < self.config.steps:
            return True
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
        evaluations = -(-steps // every) - (self.step - 1) // every  # this step's is still due
        left = self.step_pace.seconds_for(steps - self.step)
        if self.evaluation_pace.units:
            left += self.evaluation_pace.seconds_for(evaluations)
        else:  # a forward pass takes about a third of a step on as many samples
            left += self.step_pace.seconds_for(evaluations * len(self._samples) / self.batch / 3)
        return Progress(
            self.step,
            steps,
            self.numbers["loss"],
            self.assembly.stepper.worst_domain(),
            left,
        )
