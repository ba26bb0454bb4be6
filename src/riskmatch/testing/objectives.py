"""What every objective promises: checks for a method of riskmatch, or for one of your own.

Each check takes an objective and raises :class:`ConformanceError`, which says what does not hold.
In a test module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_method_conforms(check):
        check(MyMethod())

>>> from riskmatch.objectives import ERM
>>> for check in CHECKS:
...     check(ERM())
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import fields, replace
from typing import get_args

import torch
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, Needs, Objective, OptimSpec, Terms, checked_terms
from riskmatch.data.domain import Batch
from riskmatch.engine import Stepper
from riskmatch.models import MLP
from riskmatch.space import draw, ranges
from riskmatch.testing import checks_in, require

Check = Callable[[Objective], None]

TERM_WEIGHTS = ("weight", "variance_weight", "beta")
"""Fields that are the factor of a term of the loss."""

_INPUTS, _CLASSES, _WARMUP, _STEPS = 5, 3, 3, 6
_RAGGED = (6, 3, 8)


def is_described(objective: Objective) -> None:
    """A frozen dataclass with a docstring, a citation and a valid ``needs``."""
    method = type(objective)
    decorated = "__dataclass_fields__" in vars(method)  # a subclass of Objective must be frozen
    require(decorated, objective, "must be decorated with @dataclass(frozen=True).")
    require(bool(method.__doc__), objective, "has no docstring; write the formula there.")
    cited = bool(getattr(method, "citation", ""))
    require(cited, objective, "has no citation; set the class variable `citation`.")
    valid = get_args(Needs)
    require(method.needs in valid, objective, f"needs {method.needs!r}, which is not in {valid}.")


def defaults_lie_in_their_ranges(objective: Objective) -> None:
    """Every default can be drawn, on every data set; 0 stands for "off" and is allowed too."""
    method = type(objective)
    for name, entry in {**method.training, **ranges(method)}.items():
        for data, tuned in {"": entry, **entry.by_data}.items():
            where = f" on {data}" if data else ""
            require(
                tuned.default == 0 or tuned.default in tuned.range,
                objective,
                f"the default {tuned.default!r} of {name!r}{where} is outside {tuned.range}.",
            )
    for seed in range(3):
        replace(objective, **draw(ranges(method), seed))


def trains_on_ragged_batches(objective: Objective) -> None:
    """Domains of different sizes give finite terms and weights, in float32 and in float64."""
    for dtype in (torch.float32, torch.float64):
        _train(objective, _batches(_RAGGED, dtype))


def trains_on_one_domain(objective: Objective) -> None:
    """A single domain is a batch like any other."""
    _train(objective, _batches((7,)))


def same_seed_same_bits(objective: Objective) -> None:
    """Two runs from the same weights, batches and generator end in the same bits."""
    first, second = (_train(objective, _batches()) for _ in range(2))
    require(_same_bits(first, second), objective, "two runs with the same seed differ.")


def resumes_with_the_same_bits(objective: Objective) -> None:
    """An objective and a memory restored from a file go on as if nothing had happened."""
    whole = _train(objective, _batches())
    for interruption in range(1, _STEPS):
        resumed = _train(objective, _batches(), interruption)
        require(
            _same_bits(whole, resumed),
            objective,
            f"a run resumed after step {interruption} differs from one that was not interrupted; "
            "keep state in memory.state and draw random numbers from memory.generator.",
        )


def gradients_reach_every_weight(objective: Objective) -> None:
    """In the warm-up and after it, no weight is left without a gradient."""
    for step in _phases(objective):
        model = _network()
        _terms(objective, model, step).loss.backward()
        for name, weight in model.named_parameters():
            reached = weight.grad is not None and bool(weight.grad.abs().sum() > 0)
            require(reached, objective, f"at step {step} no gradient reaches {name}.")


def zero_weights_are_not_computed(objective: Objective) -> None:
    """A term whose weight is 0 is missing from the terms."""
    step = _phases(objective)[-1]
    names = {item.name for item in fields(objective)}.intersection(TERM_WEIGHTS)
    for name in sorted(names):
        weighted = _terms(replace(objective, **{name: 1.0}), _network(), step)
        without = _terms(replace(objective, **{name: 0.0}), _network(), step)
        fewer = set(without.parts) < set(weighted.parts)
        require(fewer, objective, f"with {name}=0 its term is still there: {set(without.parts)}.")


def one_forward_pass(objective: Objective) -> None:
    """A step runs the model once, unless the objective needs other weights."""
    for step in _phases(objective):
        model = _network()
        passes: list[int] = []
        model.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        _terms(objective, model, step)
        once = objective.needs == "other weights" or len(passes) == 1
        require(once, objective, f"step {step} took {len(passes)} forward passes.")


def running_statistics_see_the_batch_once(objective: Objective) -> None:
    """A step leaves batch normalisation as one plain forward pass of the batch does.

    Objectives that train on other data are left out: their statistics are those of that data.
    """
    if objective.needs == "other data":
        return
    for step in _phases(objective):
        model = _NormalisedNetwork()
        plain = copy.deepcopy(model)
        plain(_batches()[0].x)
        _terms(objective, model, step)
        same = _same_bits(dict(plain.named_buffers()), dict(model.named_buffers()))
        require(same, objective, f"step {step} disturbs the running statistics of the model.")


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


class _NormalisedNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.featurizer = nn.Sequential(nn.Linear(_INPUTS, 4), nn.BatchNorm1d(4))
        self.classifier = nn.Linear(4, _CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.featurizer(x)
        return features, self.classifier(features)


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MLP((_INPUTS,), _CLASSES, widths=(8, 6))


def _batches(sizes: tuple[int, ...] = _RAGGED, dtype: torch.dtype = torch.float32) -> list[Batch]:
    """One batch per step; the domains differ in where their inputs lie."""
    generator = torch.Generator().manual_seed(1)
    batches = []
    for _ in range(_STEPS):
        parts = [
            (
                torch.randn(size, _INPUTS, generator=generator).to(dtype) + 0.5 * domain,
                torch.randint(_CLASSES, (size,), generator=generator),
            )
            for domain, size in enumerate(sizes)
        ]
        batches.append(Batch.join(parts))
    return batches


def _phases(objective: Objective) -> tuple[int, int]:
    """The first step, and the first one after the warm-up."""
    return 0, getattr(objective, "warmup", 0)


def _terms(objective: Objective, model: nn.Module, step: int) -> Terms:
    memory = Memory(OptimSpec(lr=0.01), step)
    return checked_terms(objective(Eval(model, _batches()[0]), memory), objective)


def _train(
    objective: Objective, batches: list[Batch], interruption: int | None = None
) -> dict[str, Tensor]:
    """The weights after one step per batch; finite terms on the way."""
    assert isinstance(batches[0].x, Tensor)
    model = _network().to(batches[0].x.dtype)
    memory = Memory(OptimSpec(lr=0.01, weight_decay=0.001))
    if hasattr(objective, "warmup"):
        objective = replace(objective, **{"warmup": _WARMUP})
    stepper = Stepper(model, objective, memory)
    for number, batch in enumerate(batches):
        if number == interruption:
            stepper.memory = _restored(stepper.memory)
            stepper.objective = copy.deepcopy(stepper.objective)
        stepper.step(batch)  # raises where a term is not finite
    weights: dict[str, Tensor] = dict(model.named_parameters())
    for name, weight in weights.items():
        finite = bool(torch.isfinite(weight).all())
        require(finite, objective, f"after {len(batches)} steps {name} is not finite.")
    return weights


def _restored(memory: Memory) -> Memory:
    """The memory after a journey through a file."""
    file = io.BytesIO()
    torch.save({"state": memory.state, "generator": memory.generator.get_state()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    generator = torch.Generator()
    generator.set_state(saved["generator"])
    return Memory(memory.base, memory.step, saved["state"], generator)


def _same_bits(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)
