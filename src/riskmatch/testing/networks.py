"""Conformance checks for networks: riskmatch's own, or one of yours.

Each check takes the callable that builds the network, ``f(input_shape, classes, dropout, *,
option=…)``, and raises :class:`ConformanceError`, which names the property that fails. In a test
module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_network_conforms(check):
        check(MyNetwork)

Networks are built for images (3, 32, 32), or for vectors (6,) if they do not take images. Options
are set with :func:`functools.partial`.

>>> from riskmatch.models import NETWORKS
>>> for check in CHECKS:
...     check(NETWORKS["mlp"])
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from riskmatch.contract import OptimSpec, outputs
from riskmatch.data.domain import Batch
from riskmatch.engine import DivergedError, StepSettings, fit
from riskmatch.objectives import methods
from riskmatch.registry import PartError
from riskmatch.testing import ConformanceError, checks_in, name_of, require, require_documented

Factory = Callable[..., nn.Module]
Check = Callable[[Factory], None]

SHAPES = ((3, 32, 32), (6,))
"""Shapes of one input that are tried in this order."""
_CLASSES, _SAMPLES = 3, 6


def options_are_documented(factory: Factory) -> None:
    """Options are keyword-only with an annotation and a default; the docstring names each."""
    function: Any = factory.func if isinstance(factory, partial) else factory
    documentation = f"{function.__doc__ or ''}\n{getattr(function.__init__, '__doc__', '') or ''}"
    require(bool(function.__doc__), factory, "has no docstring.")
    for option in inspect.signature(function).parameters.values():
        named = option.kind is not option.VAR_KEYWORD
        require(named, factory, f"**{option.name} hides misspelt options; name each option.")
        if option.kind is option.KEYWORD_ONLY:
            require_documented(option, factory, documentation)


def returns_features_and_logits(factory: Factory) -> None:
    """The output is a pair of float tensors: features (n, width) and logits (n, classes).

    A network that returns logits alone passes every check but this one: methods that need features
    cannot train it.
    """
    for classes in (2, 5):
        model = _build(factory, classes=classes).eval()
        widths = set()
        for n in (1, _SAMPLES):
            out = _outputs(factory, model, _inputs(factory)[:n])
            cure = "return (features, logits), or leave out this check"
            require(len(out) == 2, factory, f"returns logits alone; {cure}.")
            features, logits = out
            same = logits.shape == (n, classes) and features.ndim == 2 and len(features) == n
            shapes = f"{tuple(features.shape)} and {tuple(logits.shape)}"
            expected = f"(n, width) and (n, classes) with n = {n}, classes = {classes}"
            require(same, factory, f"returns shapes {shapes}, expected {expected}.")
            floats = features.is_floating_point() and logits.is_floating_point()
            require(floats, factory, f"returns {features.dtype} and {logits.dtype}, not floats.")
            widths.add(features.shape[1])
        require(len(widths) == 1, factory, f"has several widths of features: {sorted(widths)}.")


def same_seed_same_weights(factory: Factory) -> None:
    """Two networks built from the same state of torch's random stream have the same weights."""
    first, second = (_build(factory).state_dict() for _ in range(2))
    for name, value in first.items():
        same = name in second and torch.equal(value, second[name])
        require(same, factory, f"{name} differs between two networks of the same seed.")


def evaluation_is_deterministic(factory: Factory) -> None:
    """In evaluation mode, outputs repeat to the bit, and weights, buffers and inputs stay."""
    model, x = _build(factory, dropout=0.5).eval(), _inputs(factory)
    before, inputs = copy.deepcopy(model.state_dict()), x.clone()
    with torch.no_grad():
        first, second = _outputs(factory, model, x), _outputs(factory, model, x)
    same = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    require(torch.equal(x, inputs), factory, "changes its inputs in place.")
    require(same, factory, "two passes in evaluation mode differ.")
    for name, value in model.state_dict().items():
        require(torch.equal(value, before[name]), factory, f"changes {name} in evaluation mode.")


def evaluation_ignores_the_rest_of_the_batch(factory: Factory) -> None:
    """In evaluation mode, the outputs of a sample do not depend on the others in its batch."""
    model, x = _build(factory).eval(), _inputs(factory)
    with torch.no_grad():
        together = _outputs(factory, model, x)
        alone = [_outputs(factory, model, x[i : i + 1]) for i in range(len(x))]
    names = ("features", "logits")[-len(together) :]
    for name, whole, *singles in zip(names, together, *alone, strict=True):
        close = torch.allclose(whole, torch.cat(singles), rtol=1e-3, atol=1e-4)
        require(close, factory, f"{name} of a sample depend on the others in its batch.")


def dropout_acts_only_in_training(factory: Factory) -> None:
    """Dropout makes two passes in training mode differ, and has no effect in evaluation mode."""
    model, x = _build(factory, dropout=0.5), _inputs(factory)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = (_outputs(factory, model.train(), x)[-1].detach() for _ in range(2))
    require(not torch.equal(first, second), factory, "dropout=0.5 has no effect in training.")
    without = _build(factory)
    without.load_state_dict(model.state_dict())
    same = _same_logits(factory, model, without)
    require(same, factory, "dropout has an effect in evaluation mode.")


def gradients_reach_every_weight(factory: Factory) -> None:
    """After a few steps, which open gates initialised to zero, every weight has a gradient."""
    model = _build(factory)
    _train(factory, model)
    model.zero_grad()
    x, y = _inputs(factory), _labels()
    cross_entropy(_outputs(factory, model, x)[-1], y).backward()
    trainable = [(name, w) for name, w in model.named_parameters() if w.requires_grad]
    require(bool(trainable), factory, "has no weights to train.")
    for name, weight in trainable:
        reached = weight.grad is not None and bool(weight.grad.abs().sum() > 0)
        require(reached, factory, f"no gradient reaches {name}; set requires_grad to False.")


def state_dict_round_trip(factory: Factory) -> None:
    """Weights saved as safetensors and loaded into another network give the same outputs."""
    model = _build(factory)
    state = {name: value.clone().contiguous() for name, value in model.state_dict().items()}
    other = _build(factory, seed=1)
    try:
        other.load_state_dict(from_bytes(to_bytes(state)))
    except RuntimeError as error:
        cause = str(error).partition("\n")[2].strip() or str(error)
        raise ConformanceError(name_of(factory), f"cannot load its own weights: {cause}") from error
    same = _same_logits(factory, model, other)
    require(same, factory, "loaded weights give other logits; keep all state in the state dict.")


def copies_are_independent(factory: Factory) -> None:
    """A deep copy gives the same outputs, and training it leaves the original as it was."""
    model = _build(factory)
    other = copy.deepcopy(model)
    before = copy.deepcopy(model.state_dict())
    require(_same_logits(factory, model, other), factory, "a deep copy gives other logits.")
    _train(factory, other)
    for name, value in model.state_dict().items():
        kept = torch.equal(value, before[name])
        require(kept, factory, f"{name} changes when a deep copy is trained.")


def trains_with_finite_weights(factory: Factory) -> None:
    """A few steps of ERM, whole, in micro-batches and in bfloat16, give finite weights."""
    for settings in (StepSettings(), StepSettings(micro_batch=4), StepSettings(amp=True)):
        model = _build(factory)
        _train(factory, model, settings)
        for name, weight in model.named_parameters():
            require(bool(torch.isfinite(weight).all()), factory, f"{name} is not finite.")


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


def _build(
    factory: Factory, classes: int = _CLASSES, dropout: float = 0.0, seed: int = 0
) -> nn.Module:
    """Build the network for the first of :data:`SHAPES` that it takes."""
    return _built(factory, classes, dropout, seed)[0]


def _built(
    factory: Factory, classes: int, dropout: float, seed: int
) -> tuple[nn.Module, tuple[int, ...]]:
    errors = []
    for shape in SHAPES:
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(seed)
                model = factory(shape, classes, dropout)
                copy.deepcopy(model).eval()(torch.rand(2, *shape))
        except Exception as error:  # any error of a user's network
            errors.append(f"{shape}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        else:
            module = isinstance(model, nn.Module)
            require(module, factory, f"returns {type(model).__name__}, not a torch.nn.Module.")
            return model, shape
    raise ConformanceError(name_of(factory), f"cannot be built and called for {'; '.join(errors)}")


def _inputs(factory: Factory) -> Tensor:
    _, shape = _built(factory, _CLASSES, 0.0, 0)
    return torch.rand(_SAMPLES, *shape, generator=torch.Generator().manual_seed(1))


def _labels() -> Tensor:
    return torch.arange(_SAMPLES) % _CLASSES


def _outputs(factory: Factory, model: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Features, where the network returns them, and logits."""
    try:
        features, logits = outputs(model, x)
    except PartError as error:
        raise ConformanceError(name_of(factory), str(error)) from None
    return (logits,) if features is None else (features, logits)


def _same_logits(factory: Factory, first: nn.Module, second: nn.Module) -> bool:
    """Whether two networks give the same logits in evaluation mode."""
    x = _inputs(factory)
    with torch.no_grad():
        logits = [_outputs(factory, model.eval(), x)[-1] for model in (first, second)]
    return torch.equal(*logits)


def _train(factory: Factory, model: nn.Module, settings: StepSettings | None = None) -> None:
    half = _SAMPLES // 2
    batch = Batch(_inputs(factory), _labels(), (half, _SAMPLES - half))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            fit(model, methods()["erm"](), [batch] * 3, OptimSpec(lr=1e-3), settings=settings)
        except DivergedError as error:
            raise ConformanceError(name_of(factory), f"training fails: {error}") from error
