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

from riskmatch.contract import (
    Memory,
    Needs,
    Objective,
    OptimSpec,
    Terms,
    checked_terms,
    classifier_of,
    outputs,
)
from riskmatch.data.domain import Batch
from riskmatch.engine import Stepper
from riskmatch.engine.step import Phase
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
    """In the warm-up and after it, every weight that is trained has a gradient when it is stepped.

    A method with networks of its own may step them at other turns, or at other steps, and any in
    its warm-up a part of the weights alone. One that masks gradients may close a weight's mask in
    some batches.
    """
    for first in _phases(objective):
        stepper = _stepper(objective, _network(), first)
        waiting, stepped = _trained(stepper), set[int]()
        for number, batch in enumerate(_batches()):
            if not waiting:
                break
            stepper.memory.step = first + number
            for turn in range(objective.turns(stepper.memory.step)):
                stepper.memory.turn = turn
                _next_terms(stepper, batch).loss.backward()
                for name, phase in stepper.enter_phases().items():
                    for weight in stepper.weights(name):
                        stepped.add(id(weight))
                        if weight.grad is not None and bool(weight.grad.abs().sum() > 0):
                            waiting = {k: v for k, v in waiting.items() if v is not weight}
                    phase.optimizer.step()
                for weight in stepper.weights("all"):
                    weight.grad = None
        acts = first == _phases(objective)[-1]
        missing = next((k for k, v in waiting.items() if acts or id(v) in stepped), "")
        require(not missing, objective, f"at step {first} no gradient reaches {missing}.")


def turns_are_counted(objective: Objective) -> None:
    """Every step has one turn or more."""
    for step in _phases(objective):
        turns = objective.turns(step)
        require(turns >= 1, objective, f"takes {turns} turns at step {step}.")


def predicts_from_inputs_alone(objective: Objective) -> None:
    """Without labels and domains, the trained model gives (n, c) finite outputs, twice the same."""
    stepper = _stepper(objective, _network())
    stepper.step(_batches()[0])
    model, x = stepper.predictor.eval(), _batches()[0].x
    with torch.no_grad():
        first, second = (outputs(model, x)[1] for _ in range(2))
    shape = tuple(first.shape)
    expected = (len(x), _CLASSES)
    require(shape == expected, objective, f"predicts outputs {shape}, expected {expected}.")
    require(bool(torch.isfinite(first).all()), objective, "predicts outputs that are not finite.")
    require(torch.equal(first, second), objective, "predicts other outputs the second time.")


def zero_weights_are_not_computed(objective: Objective) -> None:
    """A term whose weight is 0 is missing from the terms."""
    step = _phases(objective)[-1]
    names = {item.name for item in fields(objective)}.intersection(TERM_WEIGHTS)
    for name in sorted(names):
        weighted, without = (
            {
                term
                for later in range(step, step + _cycle(objective))
                for term in _names(replace(objective, **{name: value}), later)
            }
            for value in (1.0, 0.0)
        )
        message = f"with {name}=0 its term is still there: {without}."
        require(without < weighted, objective, message)


def one_forward_pass(objective: Objective) -> None:
    """A step runs the model once, unless the objective needs other weights."""
    for step in _phases(objective):
        model = _network()
        stepper = _stepper(objective, model, step)
        classifier_of(model, _batches()[0].x)  # found by a forward pass, once
        passes: list[int] = []
        model.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        _next_terms(stepper)
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


def _cycle(objective: Objective) -> int:
    """Steps in which everything happens: a method may alternate between networks."""
    return _STEPS if objective.overrides("modules") or objective.overrides("turns") else 1


def _stepper(objective: Objective, model: nn.Module, step: int = 0) -> Stepper:
    stepper = Stepper(model, objective, Memory(OptimSpec(lr=0.01, weight_decay=0.001), step))
    x = torch.zeros(2, _INPUTS).to(stepper.trainable()[0])
    stepper.prepare(x, len(_RAGGED))
    return stepper


def _next_terms(stepper: Stepper, batch: Batch | None = None) -> Terms:
    objective = stepper.objective
    ev = stepper.evaluate(batch or _batches()[0])
    return checked_terms(objective(ev, stepper.memory), objective)


def _terms(objective: Objective, model: nn.Module, step: int) -> Terms:
    return _next_terms(_stepper(objective, model, step))


def _names(objective: Objective, step: int) -> set[str]:
    """The terms of all turns of a step."""
    stepper, names = _stepper(objective, _network(), step), set[str]()
    for turn in range(objective.turns(step)):
        stepper.memory.turn = turn
        names |= _next_terms(stepper).parts.keys()
    return names


def _trained(stepper: Stepper) -> dict[str, Tensor]:
    """Weights of the network and of the modules by name, but for fixed ones."""
    modules = stepper.memory.modules
    named = *stepper.model.named_parameters(), *modules.named_parameters()
    return {name: weight for name, weight in named if weight.requires_grad}


def _train(
    objective: Objective, batches: list[Batch], interruption: int | None = None
) -> dict[str, Tensor]:
    """The weights after one step per batch; finite terms on the way."""
    assert isinstance(batches[0].x, Tensor)
    model = _network().to(batches[0].x.dtype)
    if hasattr(objective, "warmup"):
        objective = replace(objective, **{"warmup": _WARMUP})
    stepper = _stepper(objective, model)
    for number, batch in enumerate(batches):
        if number == interruption:
            stepper = _resumed(stepper)
        stepper.step(batch)  # raises where a term is not finite
    weights = _trained(stepper)
    for name, weight in weights.items():
        finite = bool(torch.isfinite(weight).all())
        require(finite, objective, f"after {len(batches)} steps {name} is not finite.")
    return weights


def _resumed(stepper: Stepper) -> Stepper:
    """A stepper with the state of another one, which has been in a file."""
    file, memory = io.BytesIO(), stepper.memory
    states = {"state": memory.state, "generator": memory.generator.get_state()}
    torch.save({**states, "modules": memory.modules.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    objective, model = copy.deepcopy(stepper.objective), copy.deepcopy(stepper.model)
    other = _stepper(objective, model, memory.step)
    other.memory.state, other.memory.start = saved["state"], memory.start
    other.memory.generator.set_state(saved["generator"])
    other.memory.modules.load_state_dict(saved["modules"])
    for name, phase in stepper.phases.items():
        optimizer = phase.spec.build(other.weights(name))
        optimizer.load_state_dict(phase.optimizer.state_dict())
        other.phases[name] = Phase(phase.spec, phase.start, optimizer)
    return other


def _same_bits(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)
