"""A model on a batch, each part computed once and only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from riskmatch.contract.network import MissingFeaturesError, classifier_of, outputs
from riskmatch.contract.risks import RiskFunction, checked_risks, cross_entropy_risks
from riskmatch.data.domain import Batch, NamedTensors

Params = Mapping[str, Tensor]


class Eval:
    """A lazy view of a model on a batch: a forward pass happens at most once, on demand.

    Args:
        model: maps x to ``(features, logits)`` or to logits, see
            :func:`~riskmatch.contract.outputs`.
        batch: the samples.
        risk: per-sample loss of ``(logits, y)``, (n,).
        params: other weights to evaluate the model at; by default its own.
        amp: run the model in bfloat16 where that is safe. Its outputs come back in float32, so that
            whatever an objective computes from them keeps its digits.
        micro_batch: pass the batch in pieces of so many samples, which stay in cache; 0 passes it
            whole. The mathematics is the same unless the model looks at other samples of its batch.
        modules: networks of the method by name.
        start: the network before the first step, where the method needs it.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.head = nn.Linear(2, 3)
        ...     def forward(self, x):
        ...         return x, self.head(x)
        >>> ev = Eval(Net(), Batch(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), (2, 3)))
        >>> ev.risks.shape, ev.domain_risks.shape
        (torch.Size([5]), torch.Size([2]))
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        risk: RiskFunction = cross_entropy_risks,
        params: Params | None = None,
        amp: bool = False,
        micro_batch: int = 0,
        modules: Mapping[str, nn.Module] = MappingProxyType({}),
        start: nn.Module | None = None,
    ) -> None:
        self.model = model
        self.batch = batch
        self.modules = modules
        """Networks of the method by name, see :meth:`Objective.modules`."""
        self._risk = risk
        self._params = params
        self._amp = amp
        self._micro_batch = micro_batch
        self._start = start
        self._risks_only = False

    @cached_property
    def params(self) -> Params:
        """The trainable weights by name."""
        self._check_complete()
        if self._params is not None:
            return self._params
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @cached_property
    def _outputs(self) -> tuple[Sequence[Tensor | None], Sequence[Tensor]]:
        """Features and logits of each piece of the batch."""
        self._check_complete()
        x = self.batch.x
        pieces = x.split(self._micro_batch) if self._micro_batch else (x,)
        features, logits = zip(*(self._forward(piece) for piece in pieces), strict=True)
        return features, logits

    def _forward(self, x: Tensor | NamedTensors) -> tuple[Tensor | None, Tensor]:
        call: Callable[..., Any] = self.model
        if self._params is not None:
            call = partial(_call_with, self.model, self._params)
        with self._autocast(x.device):
            features, logits = outputs(call, x)
        return None if features is None else self._unpacked(features), self._unpacked(logits)

    def _autocast(self, device: torch.device) -> AbstractContextManager[object]:
        return torch.autocast(device.type, torch.bfloat16) if self._amp else nullcontext()

    def _unpacked(self, values: Tensor) -> Tensor:
        return values.float() if self._amp else values

    @cached_property
    def features(self) -> Tensor:
        """(n, d) what the classifier sees.

        Raises:
            MissingFeaturesError: the network returns logits alone.
        """
        if self.known_features is None:
            raise MissingFeaturesError
        return self.known_features

    @cached_property
    def known_features(self) -> Tensor | None:
        """(n, d) the features, or None where the network returns logits alone."""
        pieces = [piece for piece in self._outputs[0] if piece is not None]
        return _joined(pieces) if pieces else None

    @cached_property
    def logits(self) -> Tensor:
        """(n, c) the scores of the classes."""
        return _joined(self._outputs[1])

    def classify(self, features: Tensor) -> Tensor:
        """(n, c) the logits of other features (n, d), by the classifier of the network.

        Example:
            >>> from riskmatch.models import MLP
            >>> batch = Batch(torch.randn(5, 2), torch.zeros(5, dtype=torch.long), (2, 3))
            >>> ev = Eval(MLP((2,), 3), batch)
            >>> torch.equal(ev.classify(ev.features), ev.logits)
            True
        """
        self._check_complete()
        classifier = classifier_of(self.model, self.batch.x)
        call: Callable[..., Any] = classifier
        if self._params is not None:
            names = {id(p): n for n, p in self.model.named_parameters(remove_duplicate=False)}
            own = {name: names[id(p)] for name, p in classifier.named_parameters()}
            weights = {name: self._params[n] for name, n in own.items() if n in self._params}
            call = partial(_call_with, classifier, weights)
        with self._autocast(features.device):
            return self._unpacked(call(features))

    @cached_property
    def start(self) -> Eval:
        """The same batch under the network before the first step, in evaluation mode.

        Raises:
            ValueError: the class of the method does not say ``needs_start = True``.
        """
        self._check_complete()
        if self._start is None:
            raise ValueError("ev.start needs needs_start = True in the class of the method.")
        return Eval(self._start, self.batch, self._risk, None, self._amp, self._micro_batch)

    @cached_property
    def copy(self) -> Eval:
        """The same batch under the copy of the network that the method trains beside it.

        Raises:
            ValueError: the class of the method does not say ``needs_copy = True``.
        """
        self._check_complete()
        if "copy" not in self.modules:
            raise ValueError("ev.copy needs needs_copy = True in the class of the method.")
        settings = self._risk, None, self._amp, self._micro_batch
        return Eval(self.modules["copy"], self.batch, *settings)

    @cached_property
    def risks(self) -> Tensor:
        """(n,) the loss of each sample."""
        return self.risks_of(self.logits)

    def risks_of(self, logits: Tensor, y: Tensor | None = None) -> Tensor:
        """(n,) the loss of other logits (n, c), with the labels of the batch or others."""
        return checked_risks(self._risk, logits, self.batch.y if y is None else y)

    @property
    def classes(self) -> Tensor:
        """(n,) the labels, for methods that compare samples of a class.

        Raises:
            ValueError: they are no classes.
        """
        y = self.batch.y
        if y.ndim != 1 or y.is_floating_point():
            raise ValueError(
                f"The method needs classes as labels, whole numbers (n,), got {y.dtype} of shape "
                f"{tuple(y.shape)}. Choose another method, or the task classification."
            )
        return y

    @cached_property
    def residuals(self) -> Tensor:
        """(n, c) the gradient of each sample's risk by its logits; p − y for cross-entropy."""
        (residuals,) = torch.autograd.grad(self.risks.sum(), self.logits, create_graph=True)
        return residuals.reshape(len(residuals), -1)

    @cached_property
    def domain_risks(self) -> Tensor:
        """(m,) the mean risk of each domain."""
        return self.domain_means(self.risks)

    @cached_property
    def risk(self) -> Tensor:
        """() the mean of the domain risks."""
        return self.risks.mean() if self._equal_sizes else self.domain_risks.mean()

    def domain_means(self, values: Tensor) -> Tensor:
        """(m,) the mean of ``values`` (n,) in each domain of the batch."""
        if self._equal_sizes:
            return values.view(len(self.batch.sizes), -1).mean(1)
        return torch.stack([part.mean() for part in self.per_domain(values)])

    @property
    def _equal_sizes(self) -> bool:
        sizes = self.batch.sizes
        return sizes.count(sizes[0]) == len(sizes)

    def per_domain(self, values: Tensor) -> tuple[Tensor, ...]:
        """``values`` (n, …) cut into the domains of the batch."""
        parts: tuple[Tensor, ...] = values.split(self.batch.sizes)
        return parts

    def on(self, batch: Batch) -> Eval:
        """The same weights on other data."""
        return self._other(batch, self._params)

    def against(self, y: Tensor) -> Eval:
        """The same outputs with other labels, without another forward pass."""
        other = self.on(replace(self.batch, y=y))
        other.__dict__["_outputs"] = self._outputs
        return other

    def with_risks(self, risks: Tensor) -> Eval:
        """The same batch with risks (n,) computed elsewhere; reading other outputs then raises."""
        other = self.on(self.batch)
        other.__dict__["risks"], other._risks_only = risks, True
        return other

    def at(self, params: Params) -> Eval:
        """Other weights on the same data; the model's running statistics stay as they are."""
        return self._other(self.batch, params)

    def _other(self, batch: Batch, params: Params | None) -> Eval:
        settings = self._risk, params, self._amp, self._micro_batch, self.modules, self._start
        return Eval(self.model, batch, *settings)

    def split(self) -> tuple[Eval, ...]:
        """One view per domain, each with a forward pass of its own."""
        return tuple(self.on(part) for part in self.batch.split())

    def grad(self, scalar: Tensor, create_graph: bool = False) -> dict[str, Tensor]:
        """The gradient of ``scalar`` by the weights; zero where it does not depend on them."""
        gradients = torch.autograd.grad(
            scalar,
            list(self.params.values()),
            create_graph=create_graph,
            retain_graph=True,
            materialize_grads=True,
        )
        return dict(zip(self.params, gradients, strict=True))

    def surrogate(self, gradient: Params) -> Tensor:
        """() zero, with ``gradient`` as its gradient by the weights.

        Example:
            >>> batch = Batch(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), (5,))
            >>> ev = Eval(nn.Linear(2, 3), batch)
            >>> ones = {name: torch.ones_like(theta) for name, theta in ev.params.items()}
            >>> ev.surrogate(ones).item(), ev.grad(ev.surrogate(ones))["bias"]
            (0.0, tensor([1., 1., 1.]))
        """
        terms = [
            ((theta - theta.detach()) * gradient[name].detach()).sum()
            for name, theta in self.params.items()
        ]
        return torch.stack(terms).sum()

    def observe(self) -> None:
        """Let the model's running statistics see the batch, where it keeps any."""
        if "_outputs" not in self.__dict__ and any(True for _ in self.model.buffers()):
            with torch.no_grad():
                self._forward(self.batch.x)

    def _check_complete(self) -> None:
        if self._risks_only:
            raise ValueError(
                "The method reads more than risks, which accumulate and several processes cannot "
                "provide: state its needs, and use accumulate=0 and one process."
            )


def _call_with(model: nn.Module, weights: Params, *args: Tensor, **kwargs: Tensor) -> Any:
    # Running statistics belong to the model's own weights: others update a copy.
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return torch.func.functional_call(model, {**weights, **buffers}, args, kwargs)


def _joined(pieces: Sequence[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))
