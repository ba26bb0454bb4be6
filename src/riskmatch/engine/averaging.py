"""Average weights: of a run over its steps (EMA, SWA, SWAD), and of several runs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from riskmatch.contract import outputs
from riskmatch.data.sampler import Sampler
from riskmatch.device import device_of, fork_random
from riskmatch.runs.config import RunConfig, acts_from

EMA_DECAY = 0.999
SWA_START = 0.75
"""Share of the steps after which SWA starts."""
SWAD_START_PATIENCE, SWAD_END_PATIENCE, SWAD_TOLERANCE = 3, 6, 1.3
"""N_s, N_e and r of Cha et al., SWAD: Domain Generalization by Seeking Flat Minima, 2021."""
BATCH_NORM_BATCHES = 32


@dataclass(frozen=True)
class AverageState:
    """The plain values of a :class:`WeightAverage`."""

    means: list[tuple[int, float]]
    """Number of steps and validation risk of each mean."""
    threshold: float | None
    observed: int
    ended: bool


@dataclass
class Mean:
    """Mean of weights over steps."""

    weights: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0
    """Number of steps."""
    risk: float = 0.0
    """Validation risk at the last of them."""

    def add(
        self, weights: Mapping[str, Tensor], count: int = 1, share: float | None = None
    ) -> None:
        """Add the mean of ``count`` further steps, with the weight ``share``."""
        self.count += count
        share = count / self.count if share is None else share
        if not self.weights:
            self.weights = {name: value.detach().clone() for name, value in weights.items()}
            return
        for name, value in self.weights.items():
            value.lerp_(weights[name].detach(), share)


class WeightAverage:
    """The averaged weights of a run; averaging starts when its method acts.

    - ``ema``: exponential moving average with the decay min(0.999, (1 + k) / (10 + k)) at its k-th
      step.
    - ``swa``: mean over the steps of the last quarter of the run (Izmailov et al. 2018).
    - ``swad``: mean over a window that the validation risk chooses (Cha et al. 2021). It starts at
      the first evaluation whose risk is not above those of the two that follow, and ends before
      six evaluations in a row exceed 1.3 times the mean risk of those three. As in the released
      code, the steps since the previous evaluation belong to an evaluation, and before the window
      starts, the average is that of these steps.

    Example:
        >>> average = WeightAverage(RunConfig("pacs", ("photo",), "erm", average="swa", steps=4))
        >>> network = nn.Linear(1, 1)
        >>> for step in (3, 4):
        ...     _ = nn.init.constant_(network.weight, step)
        ...     average.add(step, network)
        >>> average.current()["weight"]
        tensor([[4.]])
    """

    def __init__(self, config: RunConfig, start: int | None = None) -> None:
        self.kind = config.average
        self._start = max(acts_from(config) or 0, config.pretrain)
        if self.kind == "swa":
            self._start = max(self._start, int(SWA_START * config.steps))
        elif self.kind == "none" and start is not None:  # a mean of the method itself
            self.kind, self._start = "swa", start - 1
        self.ended = False
        """Whether the window of ``swad`` has ended."""
        self._total, self._segment = Mean(), Mean()
        self._pending: list[Mean] = []
        """Of ``swad``: the steps of the latest evaluations, not yet known to be in the window."""
        self._threshold: float | None = None
        self._observed = 0

    def add(self, step: int, model: nn.Module) -> None:
        """Add the weights after a step."""
        if step <= self._start or self.ended or self.kind == "none":
            return
        weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if self.kind == "swad":
            self._segment.add(weights)
        elif self.kind == "swa":
            self._total.add(weights)
        else:
            seen = self._total.count
            self._total.add(weights, share=1 - min(EMA_DECAY, (1 + seen) / (10 + seen)))

    def observe(self, step: int, risk: float) -> None:
        """Let ``swad`` know the validation risk of the weights at an evaluation."""
        if self.ended or step <= self._observed or not self._segment.count:
            return
        self._observed, self._segment.risk = step, risk
        self._pending.append(self._segment)
        self._segment = Mean()
        risks = [segment.risk for segment in self._pending]
        if self._threshold is None:
            self._pending = self._pending[-SWAD_START_PATIENCE:]
            risks = risks[-SWAD_START_PATIENCE:]
            if len(risks) == SWAD_START_PATIENCE and risks[0] == min(risks):
                self._threshold = SWAD_TOLERANCE * fmean(risks)
                self._include_first()
        elif len(risks) == SWAD_END_PATIENCE:
            if min(risks) > self._threshold:
                self.ended, self._pending = True, []
            else:
                self._include_first()

    def _include_first(self) -> None:
        first = self._pending.pop(0)
        self._total.add(first.weights, first.count)

    def current(self) -> dict[str, Tensor] | None:
        """The averaged weights by name; None before averaging starts."""
        if self.kind == "swad" and self._threshold is None:
            return self._pending[-1].weights if self._pending else None
        mean = copy.deepcopy(self._total) if self._pending else self._total
        for segment in self._pending:
            mean.add(segment.weights, segment.count)
        return mean.weights or None

    @contextmanager
    def applied(self, model: nn.Module, sampler: Sampler) -> Iterator[dict[str, Tensor] | None]:
        """Give ``model`` the averaged weights, and its own ones back at the end.

        Statistics of batch normalisation, unless frozen, are recomputed on the first training
        batches.

        Yields:
            The state dict of the averaged network; None before averaging starts.
        """
        weights = self.current()
        if weights is None:
            yield None
            return
        trained = copy.deepcopy(model.state_dict())
        model.load_state_dict({**trained, **weights})
        recompute_batch_norm(model, sampler)
        try:
            yield copy.deepcopy(model.state_dict())
        finally:
            model.load_state_dict(trained)

    def state(self) -> tuple[AverageState, dict[str, Tensor]]:
        """Plain values and tensors for :meth:`restore`."""
        means = [self._total, self._segment, *self._pending]
        tensors = {
            f"{number}/{name}": value
            for number, mean in enumerate(means)
            for name, value in mean.weights.items()
        }
        counts = [(mean.count, mean.risk) for mean in means]
        return AverageState(counts, self._threshold, self._observed, self.ended), tensors

    def restore(self, values: AverageState, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what :meth:`state` returned."""
        means = [Mean({}, count, risk) for count, risk in values.means]
        for key, value in tensors.items():
            number, name = key.split("/", 1)
            means[int(number)].weights[name] = value
        self._total, self._segment, *self._pending = means
        self._threshold, self._observed = values.threshold, values.observed
        self.ended = values.ended


def mean_network(
    networks: Sequence[nn.Module], sampler: Sampler, share: float | None = None
) -> nn.Module:
    """A network with the mean of the weights of networks, in evaluation mode.

    Statistics of batch normalisation, unless frozen, are recomputed on the first training batches;
    other buffers are those of the first network. Of one network it is a copy.

    Args:
        networks: networks of one architecture.
        sampler: the training batches.
        share: weight of the second of two networks, by default a half.

    Example:
        >>> from riskmatch.data import Domain
        >>> sampler = Sampler([Domain("a", torch.zeros(2, 1), torch.tensor([0, 1]))], 1, seed=0)
        >>> networks = [nn.Linear(1, 1), nn.Linear(1, 1)]
        >>> for value, network in enumerate(networks):
        ...     _ = nn.init.constant_(network.weight, value)
        >>> mean_network(networks, sampler).weight.item()
        0.5
    """
    mean = Mean()
    for network in networks:
        mean.add(dict(network.named_parameters()), share=share)
    model = copy.deepcopy(networks[0])
    model.load_state_dict(mean.weights, strict=False)
    if len(networks) > 1:
        recompute_batch_norm(model.train(), sampler)
    return model.eval()


def recompute_batch_norm(model: nn.Module, sampler: Sampler) -> None:
    """Set running statistics to their means over training batches; random streams stay as is."""
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, _BatchNorm) and layer.training and layer.track_running_stats
    ]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over batches
    batches = copy.copy(sampler)
    batches.restore({"drawn": 0})
    with torch.no_grad(), fork_random(device_of(model)):
        for batch in islice(batches, BATCH_NORM_BATCHES):
            outputs(model, batch.x)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
