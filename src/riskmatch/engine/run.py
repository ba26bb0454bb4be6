"""A run from its configuration to its record, whatever interrupts it on the way."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from riskmatch.data.domain import DomainSet
from riskmatch.data.progress import OnProgress
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import Parts, assemble
from riskmatch.engine.data_identity import check_files, check_unchanged, warn_if_changed
from riskmatch.engine.evaluate import predict, scores
from riskmatch.engine.interrupt import held_interrupts
from riskmatch.engine.memory import forget_peak, peak_memory
from riskmatch.engine.snapshot import capture, restore
from riskmatch.engine.step import DivergedError
from riskmatch.runs import predictions as predicted
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lock import lock
from riskmatch.runs.records import Evaluation, RunRecord

CHECKPOINTS = "checkpoints"
OnEvaluation = Callable[[RunConfig, Evaluation], None]
"""Called with the configuration of a run and each of its evaluations, once it is on disk."""


class UnfinishedError(RuntimeError):
    """The run was begun before, and nobody said to go on with it."""


@dataclass(frozen=True)
class Progress:
    """A run after a step."""

    step: int
    steps: int
    loss: float
    worst_domain: str | None
    """The domain with the largest mean risk in the batch, where the method looks at risks."""
    seconds_left: float


@dataclass
class _Life:
    """One process's share of a run."""

    folder: Path
    config: RunConfig
    parts: Parts
    device: torch.device
    predictions: bool
    """Whether to keep what the model says of every sample at each evaluation."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What the last step reported."""
    seconds_before: float = 0.0
    """Of earlier processes."""
    born: float = field(default_factory=time.monotonic)
    first_step: int = 0
    evaluated: int = 0
    """The step of the last evaluation on file."""
    saved: int = 0
    """The step of the last checkpoint."""
    stepping: float = 0.0
    """Seconds inside steps since the last evaluation, and how many steps those were."""
    stepped: int = 0

    @property
    def step(self) -> int:
        return self.parts.stepper.memory.step

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.born


def train(
    config: RunConfig,
    out: Path,
    *,
    device: torch.device | str = "cpu",
    data_dir: Path | None = None,
    domains: DomainSet | None = None,
    resume: bool = False,
    checkpoint_every: int | None = None,
    predictions: bool = False,
    on_step: Callable[[Progress], None] | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_progress: OnProgress | None = None,
) -> RunRecord:
    """Train the run that ``config`` describes, in the folder ``out / config.id``.

    A finished run is returned as it is, with a warning where its data are others now. Checkpoints
    are written at every evaluation, every ``checkpoint_every`` steps, and on Ctrl-C. A run that
    went on from a checkpoint has the weights and the record of one that was never interrupted, but
    for times and memory.

    Args:
        config: what the result depends on.
        out: the folder of all runs.
        device: where to train.
        data_dir: a folder in which to look for the files of the data set first.
        domains: the run's data set, where it is loaded already; see
            :func:`~riskmatch.engine.assemble.domains_of`.
        resume: go on with a run that was interrupted or failed, from its last checkpoint.
        checkpoint_every: steps between checkpoints, beside those at evaluations.
        predictions: keep what the model says of every sample at each evaluation, see
            :mod:`riskmatch.runs.predictions`; reports show more with them.
        on_step: called after every step.
        on_evaluation: called with the configuration of a run and each of its evaluations, once it
            is on disk: those of the ERM phase too, where ``pretrain`` is not 0.
        on_progress: told of every image that is read, decoded or embedded before the first.

    Raises:
        UnfinishedError: the run was begun before and ``resume`` is false.
        DataChangedError: the run, or the ERM phase it starts from, was trained on other data.
        BusyError: another process is training it.
        DivergedError: a term or a weight is not finite; the record says so too.
    """
    folder = out / config.id
    if finished := _finished(folder, resume):
        warn_if_changed(finished, domains, data_dir)
        return finished
    if domains is None:
        for run in [config, *([config.erm_phase()] if config.pretrain else [])]:
            if checkpoint.exists(out / run.id / CHECKPOINTS):
                check_files(out / run.id, data_dir)
    if config.pretrain and not _has_ended(phase := config.erm_phase(), out):
        train(
            phase,
            out,
            device=device,
            data_dir=data_dir,
            domains=domains,
            resume=True,
            checkpoint_every=checkpoint_every,
            predictions=predictions,
            on_step=on_step,
            on_evaluation=on_evaluation,
            on_progress=on_progress,
        )
    parts = assemble(config, device, data_dir, domains, on_progress)
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder), torch.random.fork_rng(_gpus(torch.device(device))):
        if finished := _finished(folder, resume):  # while we were waiting for the data
            return finished
        life = _Life(folder, config, parts, torch.device(device), predictions)
        _begin(life, out)
        forget_peak(life.device)
        try:
            _live(life, checkpoint_every, on_step, on_evaluation)
        except Exception as error:
            records.end(folder, "failed", f"{type(error).__name__}: {error}")
            raise
        records.end(folder, "done")
    return records.read(folder)


def _finished(folder: Path, resume: bool) -> RunRecord | None:
    found = records.find(folder)
    if found is None or (resume and found.status != "done"):
        return None
    if found.status == "done":
        return found
    last = found.evaluations[-1].step if found.evaluations else 0
    state = f"failed ({found.error})" if found.status == "failed" else "is unfinished"
    raise UnfinishedError(
        f"The run in {folder} {state}; its last evaluation is that of step {last} of "
        f"{found.config.steps}. Go on with resume=True, or remove the folder to start again."
    )


def _has_ended(phase: RunConfig, out: Path) -> bool:
    """Whether a run can start where the ERM phase ended."""
    if not checkpoint.path_of(out / phase.id / CHECKPOINTS, phase.steps).exists():
        records.forget(out / phase.id)  # a record alone is nothing to start from
    found = records.find(out / phase.id)
    return found is not None and found.status == "done"


def _begin(life: _Life, out: Path) -> None:
    """Go on from the last checkpoint, or else from the start."""
    torch.manual_seed(life.config.seed)  # of dropout
    last, refused = checkpoint.load_last(life.folder / CHECKPOINTS, life.config.id)
    found = records.find(life.folder)
    if refused:
        onward = f"step {last.step}" if last and found else "the start"
        warnings.warn(f"{' '.join(refused)} Going on from {onward}.", stacklevel=3)
    if last is None or found is None:
        if life.config.pretrain:
            _take_over(life, out)
        checkpoint.clear(life.folder / CHECKPOINTS)
        predicted.rewind(life.folder, -1)
        records.start(life.folder, life.config, life.parts.data)
        return
    check_unchanged(found, life.parts.data, life.folder)
    notes = restore(last, life.parts.stepper, life.parts.sampler)
    records.rewind(life.folder, last.step)
    predicted.rewind(life.folder, last.step)
    life.numbers, life.seconds_before = notes["numbers"], notes["seconds"]
    life.first_step = life.saved = last.step
    kept = records.read(life.folder).evaluations
    life.evaluated = kept[-1].step if kept else 0


def _take_over(life: _Life, out: Path) -> None:
    """Start where the shared ERM phase ended: its weights, batches and streams, nothing else."""
    phase = life.config.erm_phase()
    last, refused = checkpoint.load_last(out / phase.id / CHECKPOINTS, phase.id)
    if last is None or last.step != phase.steps:
        raise RuntimeError(
            f"The ERM phase in {out / phase.id} has no checkpoint of its last step"
            f"{': ' + ' '.join(refused) if refused else ''}. Remove that folder to train it again."
        )
    check_unchanged(records.read(out / phase.id), life.parts.data, out / phase.id)
    stepper = life.parts.stepper
    fresh = stepper.memory.base, stepper.memory.generator.get_state()
    restore(last, stepper, life.parts.sampler)
    stepper.memory.base, stepper.memory.state = fresh[0], {}
    stepper.memory.generator.set_state(fresh[1])
    stepper.spec = stepper.optimizer = None
    life.first_step = life.evaluated = life.saved = last.step


def _live(
    life: _Life,
    checkpoint_every: int | None,
    on_step: Callable[[Progress], None] | None,
    on_evaluation: OnEvaluation | None,
) -> None:
    with held_interrupts() as check_interrupts:
        while True:
            due = _due(life.step, life.config.eval_every) or life.step == life.config.steps
            if due and life.evaluated < life.step:
                evaluation = _evaluation(life)
                records.append(life.folder, evaluation)
                life.evaluated, life.stepping, life.stepped = life.step, 0.0, 0
                _save(life)
                if on_evaluation is not None:
                    on_evaluation(life.config, evaluation)
                forget_peak(life.device)
            elif _due(life.step, checkpoint_every) and life.saved < life.step:
                _save(life)
            if life.step >= life.config.steps:
                return
            begun = time.monotonic()
            life.numbers = life.parts.stepper.step(next(life.parts.sampler))
            life.stepping += time.monotonic() - begun
            life.stepped += 1
            try:
                if on_step is not None:
                    on_step(_progress(life))
                check_interrupts()
            except KeyboardInterrupt:
                _save(life)
                raise


def _due(step: int, every: int | None) -> bool:
    return step > 0 and bool(every) and step % (every or 1) == 0


def _save(life: _Life) -> None:
    stepper = life.parts.stepper
    for name, weight in stepper.model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise DivergedError(life.step, f"the weight {name}", None)
    notes: dict[str, Any] = {"numbers": dict(life.numbers), "seconds": life.seconds}
    snapshot = capture(stepper, life.parts.sampler, notes)
    checkpoint.save(life.folder / CHECKPOINTS, life.config.id, snapshot)
    life.saved = life.step


def _evaluation(life: _Life) -> Evaluation:
    stepper, peak = life.parts.stepper, peak_memory(life.device)
    said = predict(stepper.model, life.parts.splits, stepper.settings.risk)
    if life.predictions:
        predicted.write(life.folder, life.step, said)
    found = scores(said)
    numbers = dict(life.numbers)
    loss = numbers.pop("loss")
    numbers.pop("worst domain", None)
    raw = {name: value for name, value in numbers.items() if name.startswith("raw ")}
    return Evaluation(
        step=life.step,
        scores=found,
        loss=loss,
        terms={name: value for name, value in numbers.items() if name not in raw},
        raw={name.removeprefix("raw "): value for name, value in raw.items()},
        worst_domain=max(stepper.domains, key=lambda name: found[name]["train"].risk),
        seconds=life.seconds,
        seconds_per_step=life.stepping / max(1, life.stepped),
        peak_memory=peak,
    )


def _progress(life: _Life) -> Progress:
    stepper, steps = life.parts.stepper, life.config.steps
    worst = life.numbers.get("worst domain")
    pace = (time.monotonic() - life.born) / (life.step - life.first_step)
    return Progress(
        life.step,
        steps,
        life.numbers["loss"],
        None if worst is None else stepper.domains[int(worst)],
        pace * (steps - life.step),
    )


def _gpus(device: torch.device) -> list[int]:
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]
