"""Evaluate a network on domains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from riskmatch.contract import (
    Eval,
    Memory,
    Objective,
    evaluation_mode,
    outputs,
    whole_blocks,
)
from riskmatch.contract.risks import checked_risks
from riskmatch.contract.task import TASKS, Task
from riskmatch.data.domain import Batch, Domain, DomainSet
from riskmatch.data.sampler import stream
from riskmatch.divergence.checks import NonFiniteError
from riskmatch.engine.step import Stepper
from riskmatch.metrics import find_metric
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import LEVELS, Score, Split
from riskmatch.runs.predictions import ByDomain, Predictions

CHUNK = 512
"""Most samples per forward pass."""
VALUES = 1 << 23
"""Most input values per forward pass on a CPU: 55 images of 3 × 224 × 224."""
BYTES = 256
"""Free bytes of a GPU for each input value of a forward pass: 16 GB for 415 such images."""
CLASSIFICATION = TASKS["classification"]
GRADIENT_SAMPLES = 64
"""Most samples of each domain for the norms of gradients."""
_FEW = 8
_CYCLE = 16
"""Most steps after which a method with networks of its own has stepped each of them."""


Restore = Callable[[Tensor], Tensor]
"""Maps the numbers of a regression, which are standardised for training, to the label's unit."""
View = Callable[[Tensor], Tensor]
"""Transformation of inputs."""
ViewOf = Callable[[str, Split], View | None]
"""Transformation of the inputs of a split of a domain; None where they are not changed."""


def validation_views(config: RunConfig, domains: DomainSet, step: int) -> ViewOf:
    """Augmentation of the validation samples of the training domains, as DomainBed has it.

    Each evaluation has random views of its own, which follow from the seed and the step.
    """
    augment, training = domains.augment, domains.without(config.test_domains)
    names = [domain.name for domain in training if config.augment_validation]

    def view_of(domain: str, split: Split) -> View | None:
        if augment is None or split != "val" or domain not in names:
            return None
        generator = stream("validation", config.seed, step, domain)
        return lambda x: augment(x, generator)

    return view_of


@dataclass(frozen=True)
class EvaluatedPart:
    """The samples of a split of a domain that evaluations use."""

    split: Split
    samples: Domain
    rows: NDArray[np.int32]
    """Positions of these samples in the split."""

    @property
    def domain(self) -> str:
        """Name of the domain."""
        return self.samples.name

    def __len__(self) -> int:
        return len(self.samples)


def parts_of(
    splits: Mapping[str, Mapping[Split, Domain]], share: float = 1.0, seed: int = 0
) -> list[EvaluatedPart]:
    """A random share of the samples of every split, at least one, in their order."""
    parts = []
    for name, domains in splits.items():
        for split, domain in domains.items():
            rows = torch.arange(len(domain))
            if share < 1:
                generator = stream("evaluation", seed, name, split)
                order = torch.randperm(len(domain), generator=generator)
                rows = order[: math.ceil(share * len(domain))].sort().values
                domain = domain.take(rows.to(domain.y.device))
            parts.append(EvaluatedPart(split, domain, rows.numpy().astype(np.int32)))
    return parts


def share_of(parts: Sequence[EvaluatedPart], rank: int, processes: int) -> list[EvaluatedPart]:
    """The parts that one of several processes evaluates, about as many samples on each."""
    loads, owners = [0] * processes, dict[int, int]()
    for number in sorted(range(len(parts)), key=lambda number: -len(parts[number])):
        owners[number] = loads.index(min(loads))
        loads[owners[number]] += len(parts[number])
    return [part for number, part in enumerate(parts) if owners[number] == rank]


def restore_of(domains: DomainSet) -> Restore:
    """Maps predictions and labels of a data set to the unit of its labels."""
    return domains.preprocessing.restore_target if domains.preprocessing else lambda values: values


def predict(
    model: nn.Module,
    parts: Sequence[EvaluatedPart],
    task: Task = CLASSIFICATION,
    view_of: ViewOf = lambda domain, split: None,
    on_samples: Callable[[int, int], None] = lambda done, total: None,
    restore: Restore = lambda values: values,
    keep: Callable[[Predictions], Any] = lambda values: values,
    amp: bool = False,
) -> dict[str, dict[Split, Any]]:
    """Predictions on every sample of every part, by domain and split.

    Random streams and the training mode of every layer are left as they were.

    Args:
        model: the network.
        parts: the samples.
        task: what is predicted, and the risk of each sample.
        view_of: transformation of the inputs of each part.
        on_samples: called with the number of samples that are done, and their total, after each
            forward pass.
        restore: see :func:`restore_of`.
        keep: what is returned of the predictions of a part, so that no more are in memory.
        amp: run the network in bfloat16 where that is safe, as in training.
    """
    kept: dict[str, dict[Split, Any]] = {}
    done, total = 0, sum(map(len, parts))

    def count(number: int) -> None:
        nonlocal done
        done += number
        on_samples(done, total)

    for part in parts:
        with evaluation_mode(model):
            values = score_samples(
                model,
                part.samples,
                task,
                view=view_of(part.domain, part.split),
                on_samples=count,
                restore=restore,
                amp=amp,
            )
        kept.setdefault(part.domain, {})[part.split] = keep(replace(values, index=part.rows))
    return kept


def scores(predictions: ByDomain, metrics: Iterable[str]) -> dict[str, dict[Split, Score]]:
    """Score of every split of every domain by the metrics of these names."""
    names = tuple(metrics)
    return {
        name: {split: score_of(values, names) for split, values in splits.items()}
        for name, splits in predictions.items()
    }


@torch.no_grad()
def score_samples(
    model: nn.Module,
    domain: Domain,
    task: Task = CLASSIFICATION,
    *,
    view: View | None = None,
    features: bool = False,
    chunk: int = CHUNK,
    on_samples: Callable[[int], None] = lambda number: None,
    restore: Restore = lambda values: values,
    amp: bool = False,
) -> Predictions:
    """Predictions of a network in evaluation mode on the samples of a domain.

    Args:
        model: the network.
        domain: the samples.
        task: what is predicted, and the risk of each sample.
        view: transformation of the inputs.
        features: also return the features, and the outputs of the network.
        chunk: most samples per forward pass, which bounds the memory.
        on_samples: called with the number of samples of each forward pass.
        restore: see :func:`restore_of`.
        amp: run the network in bfloat16 where that is safe.
    """
    parts = []
    device = domain.y.device
    most = torch.cuda.mem_get_info(device)[0] // BYTES if device.type == "cuda" else VALUES
    chunk = max(1, min(chunk, most // math.prod(domain.x.shape[1:])))
    chunk = whole_blocks(model, chunk)
    for x, y in zip(domain.x.split(chunk), domain.y.split(chunk), strict=True):
        with torch.autocast(device.type, torch.bfloat16, enabled=amp):
            wide, logits = outputs(model, x if view is None else view(x))
        logits = logits.float() if amp else logits
        if features and wide is None:
            wide = logits.new_empty(len(y), 0)
        parts.append(predictions_of(logits, y, task, wide if features else None, restore))
        on_samples(len(y))
    return replace(Predictions.join(parts), index=np.arange(len(domain.y), dtype=np.int32))


def predictions_of(
    logits: Tensor,
    y: Tensor,
    task: Task,
    features: Tensor | None = None,
    restore: Restore = lambda values: values,
) -> Predictions:
    """Predictions on samples with labels ``y``, from the outputs of a network."""
    predicted, probabilities = task.predict(logits)
    confidence = torch.full((len(y),), torch.nan)
    if probabilities is not None and task.labels == "classes":
        confidence = probabilities.amax(1)
    label = y
    if task.labels == "numbers":
        label, predicted = restore(y), restore(predicted)
    return Predictions(
        index=np.arange(len(y), dtype=np.int32),
        label=_array(label),
        predicted=_array(predicted),
        confidence=_array(confidence.float()),
        risk=_array(checked_risks(task.risk, logits, y).float()),
        scores=None if probabilities is None else _array(probabilities.float()),
        features=None if features is None else _array(features.flatten(1).float()),
        outputs=None if features is None else _array(logits.flatten(1).float()),
    )


def _array(values: Tensor) -> NDArray[Any]:
    """Numbers in single precision, integers in 32 bits."""
    return values.cpu().numpy().astype(np.float32 if values.is_floating_point() else np.int32)


def score_of(values: Predictions, metrics: Iterable[str]) -> Score:
    """Score of the samples of a part by the metrics of these names."""
    judged = {
        name: find_metric(name)(values.label, values.predicted, values.scores) for name in metrics
    }
    risks = values.risk.astype(np.float64)
    return Score(
        metrics={name: value for name, (value, _) in judged.items()},
        risk=_rounded(risks.mean()),
        quantiles=tuple(map(_rounded, np.quantile(risks, LEVELS))),
        missing={name: reason for name, (_, reason) in judged.items() if reason},
    )


def _rounded(value: float) -> float:
    """Round to the digits of single precision."""
    return float(f"{value:.7g}")


def gradient_norms(
    stepper: Stepper, splits: Mapping[str, Mapping[Split, Domain]], samples: int = GRADIENT_SAMPLES
) -> dict[str, float]:
    """Norms of the gradients of the risk and of the other terms of the next step, by all weights.

    They are taken in evaluation mode on the first ``samples`` training samples of each training
    domain. Weights, buffers, the method's memory and random streams are left as they were. A step
    of other networks, without a risk, is passed over.

    Returns:
        ``risk`` and ``penalty``; empty where the loss has no other term than the risk, or a risk is
        not finite.
    """
    try:
        with _apart(stepper, splits, samples) as (ev, memory):
            terms = _next_terms(stepper.objective, ev, memory)
    except NonFiniteError:
        return {}
    risk = terms.pop("risk", None)
    if risk is None or not terms:
        return {}
    weights = stepper.trainable()
    penalty = torch.stack(list(terms.values())).sum()
    return {"risk": _norm(risk, weights), "penalty": _norm(penalty, weights)}


def lacks_gradient(
    stepper: Stepper, splits: Mapping[str, Mapping[Split, Domain]], step: int
) -> bool:
    """Whether the penalty of a method on features changes no weight of the network.

    So it is where no weight of the featurizer is trained, as in a linear classifier of cached
    features. The terms are those of ``step``, on a few training samples in evaluation mode.
    """
    objective = stepper.objective
    if objective.needs != "features":
        return False
    with _apart(stepper, splits, max(_FEW, objective.min_samples)) as (ev, memory):
        if ev.known_features is None or ev.known_features.requires_grad:
            return False
        memory.step = step
        try:
            terms = _next_terms(objective, ev, memory)
        except NonFiniteError:
            return False
    others, weights = [terms[name] for name in terms if name != "risk"], stepper.trainable()
    return bool(others) and not any(_norm(term, weights) for term in others)


def _next_terms(objective: Objective, ev: Eval, memory: Memory) -> dict[str, Tensor]:
    """The terms of all turns of the next step, or of the first one after it that has a risk."""
    steps, terms = _CYCLE if objective.overrides("modules") else 1, dict[str, Tensor]()
    for step in range(memory.step, memory.step + steps):
        memory.step, terms = step, {}
        for turn in range(objective.turns(step)):
            memory.turn = turn
            terms = {**objective(ev, memory).differentiable, **terms}
        if "risk" in terms:
            break
    return terms


@contextmanager
def _apart(
    stepper: Stepper, splits: Mapping[str, Mapping[Split, Domain]], samples: int
) -> Iterator[tuple[Eval, Memory]]:
    """The network in evaluation mode on the first samples of each training domain, and a memory.

    What a method does with them has no effect on the run.
    """
    memory, model, settings = stepper.memory, stepper.model, stepper.settings
    generator = torch.Generator().set_state(memory.generator.get_state())
    apart = replace(memory, state=dict(memory.state), generator=generator)
    parts = [
        (splits[name]["train"].x[:samples], splits[name]["train"].y[:samples])
        for name in stepper.domains
    ]
    with evaluation_mode(nn.ModuleList([model, memory.modules])), torch.enable_grad():
        batch, modules = Batch.join(parts, stepper.domains), dict(memory.modules.items())
        ev = Eval(
            model, batch, settings.risk, amp=settings.amp, modules=modules, start=memory.start
        )
        yield ev, apart


def _norm(term: Tensor, weights: list[Tensor]) -> float:
    if not term.requires_grad:  # a penalty that is constant, or clipped to zero
        return 0.0
    gradients = torch.autograd.grad(term, weights, retain_graph=True, allow_unused=True)
    known = [gradient.float().norm() for gradient in gradients if gradient is not None]
    return float(torch.stack(known).norm()) if known else 0.0
