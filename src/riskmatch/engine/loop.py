"""The training loop of a run: steps, evaluations, checkpoints, interrupts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.domain import Batch
from riskmatch.data.sampler import Prefetched, Share, stream
from riskmatch.device import peak_memory, reset_peak_memory
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import Assembly
from riskmatch.engine.averaging import WeightAverage
from riskmatch.engine.evaluate import (
    GRADIENT_SAMPLES,
    EvaluatedPart,
    gradient_norms,
    parts_of,
    predict,
    score_of,
    share_of,
    validation_views,
)
from riskmatch.engine.parallel import ALONE, Processes, deferred_interrupts
from riskmatch.engine.step import DivergedError, read_numbers
from riskmatch.pace import Pace
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.lines import Evaluation, Score, Split
from riskmatch.runs.predictions import Predictions
from riskmatch.selection import best_step
from riskmatch.validation import check_option


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
PLATEAU_PATIENCE, PLATEAU_FACTOR, PLATEAU_THRESHOLD, PLATEAUS = 1, 0.1, 1e-4, 3
"""Of the schedule ``plateau``: evaluations without progress that pass, the factor of the learning
rate after one more, the relative decrease that counts, and the plateaus after which it is 0."""
Judged = tuple[Score, Predictions]
"""Score of a part, and its predictions, thinned."""
OnStep = Callable[[Progress], None]
"""Called after every step."""
OnEvaluation = Callable[[RunConfig, Evaluation], None]
"""Called with the configuration of a run and each of its evaluations, once it is on disk."""


def plateau_factor(risks: Sequence[float]) -> float:
    """The factor of the learning rate after evaluations with these validation risks.

    Example:
        >>> [plateau_factor([1.0, 0.9, *[0.9] * more]) for more in (0, 1, 2, 4, 6)]
        [1.0, 1.0, 0.1, 0.010000000000000002, 0.0]

    Reference: Teterwak et al., *ERM++: An Improved Baseline for Domain Generalization*, WACV 2025.
    """
    best, waiting, plateaus = math.inf, 0, 0
    for risk in risks:
        better = risk < best * (1 - PLATEAU_THRESHOLD)
        best, waiting = (risk, 0) if better else (best, waiting + 1)
        if waiting > PLATEAU_PATIENCE:
            plateaus, waiting = plateaus + 1, 0
    return PLATEAU_FACTOR**plateaus if plateaus < PLATEAUS else 0.0


@dataclass(frozen=True)
class Execution:
    """How a run is trained and what is written, which does not change its result."""

    device: torch.device | str = "cpu"
    data_dir: Path | None = None
    """Folder that is searched first for files of the data set."""
    predictions: bool = False
    """Write the predictions on every sample at each evaluation, see
    :mod:`riskmatch.runs.predictions`."""
    checkpoint_every: int | None = None
    """Steps between checkpoints, in addition to those at evaluations."""
    log_every: int | None = None
    """Steps after which the terms are read from the device and checked; by default every step on a
    CPU and every tenth on a GPU, which would wait."""
    keep: Keep = "best"
    on_step: OnStep | None = None
    on_evaluation: OnEvaluation | None = None
    """Called for evaluations of the ERM phase too, if ``config.pretrain`` is not 0."""
    on_progress: OnProgress | None = None
    """Called with each image that is read, decoded or embedded before the first step, and with the
    samples of an evaluation."""
    processes: Processes = ALONE
    """Processes that train the run together; the first writes the files and calls the functions."""

    def __post_init__(self) -> None:
        check_option("keep", self.keep, get_args(Keep))
        for name in ("checkpoint_every", "log_every"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1 or None, got {value}.")


@dataclass
class Session:
    """The part of a run that this process trains."""

    folder: Path
    config: RunConfig
    assembly: Assembly
    execution: Execution
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What the last step returned."""
    started: float = field(default_factory=time.monotonic)
    """Time at which the run would have started without interruptions."""
    step_pace: Pace = field(default_factory=Pace)
    evaluation_pace: Pace = field(default_factory=Pace)
    """Of the steps and evaluations of this process."""
    recent_pace: Pace = field(default_factory=Pace)
    """Of the steps since the last evaluation."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Evaluations so far."""
    saved: int = 0
    """Step of the last checkpoint, or of the end of the ERM phase."""
    averaged: dict[str, Tensor] | None = None
    """State dict of the averaged network, if it was evaluated at this step."""
    learned: Mapping[int, Evaluation] = field(default_factory=dict)
    """Evaluations of the first run of one that is trained again, by step."""

    @cached_property
    def average(self) -> WeightAverage:
        """Average of the weights over steps."""
        return WeightAverage(self.config, self.assembly.stepper.objective.averages_from)

    @property
    def processes(self) -> Processes:
        """The processes that train the run together."""
        return self.execution.processes

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return self.assembly.stepper.memory.step

    @property
    def evaluated(self) -> int:
        """Step of the last evaluation, or of the end of the ERM phase."""
        return self.evaluations[-1].step if self.evaluations else self.config.pretrain

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken, those before interruptions included."""
        return time.monotonic() - self.started

    def run(self) -> None:
        """Train to the last step; an interrupt is handled between two steps."""
        averaged = self.processes.gradients_averaged(self.assembly.stepper)
        with deferred_interrupts() as interrupted, averaged:
            while True:
                self._evaluate_or_save()
                if self.step >= self.config.steps or self.stops_early:
                    if self.processes.any(interrupted()):
                        raise KeyboardInterrupt
                    return
                begun = time.monotonic()
                if self.config.schedule == "plateau":
                    self.assembly.stepper.lr_factor = plateau_factor(self._validation_risks)
                self.numbers = self.assembly.stepper.step(self._next_batch())
                self.averaged = None
                self.average.add(self.step, self.assembly.stepper.predictor)
                for pace in (self.step_pace, self.recent_pace):
                    pace.add(time.monotonic() - begun)
                try:
                    if self.execution.on_step is not None:
                        self.execution.on_step(self._progress())
                    if self.processes.any(interrupted()):
                        raise KeyboardInterrupt
                except KeyboardInterrupt:
                    self._save()
                    raise

    def _next_batch(self) -> Batch | Share:
        """Draw the next batch, or this process's share of it."""
        rank, count = self.processes.rank, self.processes.count
        if count == 1:
            return next(self._batches)  # type: ignore[no-any-return]
        # For dropout: each process has a stream of its own that needs no state in checkpoints.
        torch.manual_seed(stream("process", self.config.seed, self.step, rank).initial_seed())
        return next(self._batches)  # type: ignore[no-any-return]

    @cached_property
    def _batches(self) -> Iterator[Any]:
        """The batches of this process; augmented ones are drawn ahead for a device to work on."""
        sampler, device = self.assembly.sampler, torch.device(self.execution.device)
        rank, count = self.processes.rank, self.processes.count
        ahead = device.type != "cpu" and self.assembly.domains.augment is not None
        if count == 1:
            return Prefetched(sampler, sampler.draw, device) if ahead else sampler
        if ahead:
            return Prefetched(sampler, partial(sampler.draw_share, rank, count), device)
        return (sampler.next_share(rank, count) for _ in repeat(None))

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
            self.recent_pace = Pace()
            if self.execution.on_evaluation is not None:
                self.execution.on_evaluation(self.config, evaluation)
            reset_peak_memory(torch.device(self.execution.device))
        elif self._is_due(self.execution.checkpoint_every) and self.saved < self.step:
            self._save()

    def _is_due(self, every: int | None) -> bool:
        return self.step > 0 and bool(every) and self.step % (every or 1) == 0

    def _save(self) -> None:
        stepper = self.assembly.stepper
        self._read()
        modules = stepper.memory.modules
        weights = [*stepper.model.named_parameters(), *modules.named_parameters()]
        finite = read_numbers([weight.isfinite().all() for _, weight in weights])
        for (name, _), whole in zip(weights, finite, strict=True):
            if not whole:
                raise DivergedError(self.step, f"the weight {name}", None)
        self.saved = self.step
        if not self.processes.main:
            return
        domains = self.assembly.domains
        sizes = domains.input_shape, domains.outputs
        method = stepper.memory.shape, stepper.objective.overrides("predict")
        notes = checkpoint.Notes(dict(self.numbers), self.seconds, *sizes, *method)
        average = None if self.average.kind == "none" else self.average
        snapshot = checkpoint.capture(stepper, self.assembly.sampler, notes, average, self.averaged)
        kept = None if self.execution.keep == "all" else self.best_steps().values()
        checkpoint.save(self.folder, self.config.id, snapshot, kept)

    def _read(self) -> None:
        """Read and check the numbers of the steps since the last time."""
        self.assembly.stepper.read()
        self.numbers = self.assembly.stepper.numbers or self.numbers

    def best_steps(self) -> dict[str, int]:
        """Steps that selection by ``train-val`` chooses so far: of all, and after the warm-up."""
        evaluations, task = tuple(self.evaluations), self.assembly.facts
        record = records.RunRecord(self.config, evaluations, task=task)
        steps = {"train-val": best_step(record), AFTER_WARMUP: best_step(record, after_warmup=True)}
        if steps[AFTER_WARMUP] == steps["train-val"]:
            del steps[AFTER_WARMUP]
        return {name: step for name, step in steps.items() if step is not None}

    def _evaluate(self) -> Evaluation:
        stepper, peak = self.assembly.stepper, peak_memory(torch.device(self.execution.device))
        self._read()
        if self.config.average == "swad":
            self.average.observe(self.step, self._raw_validation_risk())
        with self.average.applied(stepper.predictor, self.assembly.sampler) as self.averaged:
            judged = self._judge_all()
        if self.execution.predictions and self.processes.main:
            shown = {d: {s: p for s, (_, p) in splits.items()} for d, splits in judged.items()}
            predictions.write(self.folder, self.step, shown)
        by_domain = {d: {s: v for s, (v, _) in splits.items()} for d, splits in judged.items()}
        for name in stepper.domains if self.learned else ():
            by_domain[name]["val"] = self.learned[self.step].scores[name]["val"]
        terms = dict(self.numbers)
        loss = terms.pop("loss")
        raw = {name: terms.pop(name) for name in self.numbers if name.startswith("raw ")}
        return Evaluation(
            step=self.step,
            scores=by_domain,
            loss=loss,
            terms=terms,
            raw={name.removeprefix("raw "): value for name, value in raw.items()},
            worst_domain=max(stepper.domains, key=lambda name: by_domain[name]["train"].risk),
            seconds=self.seconds,
            seconds_per_step=self.recent_pace.seconds_for(1),
            peak_memory=peak,
            gradients=self._gradients() if self.processes.main else {},
        )

    def _judge_all(self) -> dict[str, dict[Split, Judged]]:
        """Scores and predictions of all parts, each computed by one process."""
        share = share_of(self._parts, self.processes.rank, self.processes.count)
        report = self.execution.on_progress or no_progress
        shares = self.processes.gather(self._judge(share, self.assembly.task.metrics, report))
        return {
            name: {
                split: next(s[name][split] for s in shares if split in s.get(name, {}))
                for split in splits
            }
            for name, splits in self.assembly.splits.items()
        }

    def _judge(
        self,
        parts: list[EvaluatedPart],
        metrics: Sequence[str],
        on_progress: OnProgress = no_progress,
    ) -> dict[str, dict[Split, Judged]]:
        """Scores of some parts by these metrics, and the predictions that are written."""
        return predict(
            self.assembly.stepper.predictor,
            parts,
            self.assembly.task,
            validation_views(self.config, self.assembly.domains, self.step),
            partial(on_progress, EVALUATING),
            self.assembly.restore,
            keep=lambda values: (score_of(values, metrics), values.thinned()),
            amp=self.config.amp,
        )

    def _raw_validation_risk(self) -> float:
        """Mean over the training domains of the risk of the weights that are not averaged."""
        training = self.assembly.stepper.domains
        parts = [part for part in self._parts if part.split == "val" and part.domain in training]
        return fmean(splits["val"][0].risk for splits in self._judge(parts, ()).values())

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
    def _parts(self) -> list[EvaluatedPart]:
        """The samples that are evaluated."""
        config = self.config
        return parts_of(self.assembly.splits, config.eval_fraction, config.trial)

    @property
    def stops_early(self) -> bool:
        """Whether the validation risk has been flat for as long as the run is patient.

        Also when the window of the average ``swad`` has ended.

        It is when the lowest of the last ``patience`` evaluations is not below the lowest before
        them by a thousandth. Evaluations count from the end of the warm-up.
        """
        if self.average.ended and self.step < self.config.steps:
            return True
        patience, risks = self.config.patience, self._validation_risks
        if not patience or len(risks) <= patience or self.step >= self.config.steps:
            return False
        return not min(risks[-patience:]) < (1 - FLAT) * min(risks[:-patience])

    @property
    def _validation_risks(self) -> list[float]:
        """Mean over the training domains at each evaluation after the warm-up."""
        warmup, domains = self.config.hparams.get("warmup", 0), self.assembly.stepper.domains
        start = warmup if warmup < self.config.steps else 0
        return [
            fmean(evaluation.scores[name]["val"].risk for name in domains)
            for evaluation in self.evaluations
            if evaluation.step > start
        ]

    def _progress(self) -> Progress:
        steps, every = self.config.steps, self.config.eval_every
        evaluations = -(-steps // every) - (self.step - 1) // every  # this step's is still due
        left = self.step_pace.seconds_for(steps - self.step)
        if self.evaluation_pace.units:
            left += self.evaluation_pace.seconds_for(evaluations)
        else:  # a forward pass takes about a third of a step on as many samples
            batch = sum(self.assembly.sampler.sizes.values())
            samples = sum(map(len, self._parts))
            left += self.step_pace.seconds_for(evaluations * samples / batch / 3)
        return Progress(
            self.step,
            steps,
            self.numbers["loss"],
            self.assembly.stepper.worst_domain(),
            left,
        )
