"""Cost of runs: time and peak memory, from a few steps that are tried and thrown away."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from pathlib import Path
from statistics import median

import torch

from riskmatch.accumulation import check_batch_norm
from riskmatch.data import OnProgress
from riskmatch.data.domain import DomainSet
from riskmatch.device import fork_random, peak_memory, reset_peak_memory
from riskmatch.engine.assemble import Assembly, assemble, domains_of, is_frozen
from riskmatch.engine.evaluate import parts_of, predict
from riskmatch.engine.instances import NO_INSTANCES, Instances
from riskmatch.engine.step import check_splits
from riskmatch.files import to_json
from riskmatch.pace import clock
from riskmatch.runs.config import RunConfig, acts_from

_STEPS = 3  # timed steps of a probe, after one that is not
_SAMPLES = 256  # samples of the evaluation that is tried
_EMBEDDINGS = "embeddings"


@dataclass(frozen=True)
class Cost:
    """Time and memory of a run.

    Example:
        >>> from riskmatch.defaults import run_config
        >>> options = {"steps": 200, "data_options": {"samples": 50}}
        >>> config = run_config("rdm", "colored-digits", ["0.1"], given=options)
        >>> run_cost(config).steps_after_warmup
        50
    """

    config: RunConfig
    warmup_step: float
    """Seconds of a step before the method acts."""
    step: float
    """Seconds of a step at which it acts."""
    evaluation: float
    """Seconds of an evaluation."""
    memory: int
    """Peak memory of a step in bytes: of the process, or of the tensors on a GPU."""
    pieces: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """By number of samples of ``accumulate`` that was tried: peak memory, seconds of a step."""
    whole_batch: int = 0
    """Samples of a batch, over all training domains."""
    undivided: str = ""
    """Why a batch cannot be taken in pieces; empty where it can."""

    @property
    def steps_after_warmup(self) -> int:
        """Steps at which the method acts; none of a method that never does."""
        start = acts_from(self.config)
        return 0 if start is None else self.config.steps - max(start, self.config.pretrain)

    @property
    def evaluations(self) -> int:
        """Number of evaluations."""
        config = self.config
        return math.ceil(config.steps / config.eval_every) - config.pretrain // config.eval_every

    @property
    def seconds(self) -> float:
        """Seconds of the run, without the ERM phase that it starts from."""
        before = self.config.steps - self.config.pretrain - self.steps_after_warmup
        steps = before * self.warmup_step + self.steps_after_warmup * self.step
        return steps + self.evaluations * self.evaluation

    def largest_piece(self, limit: float) -> int | None:
        """Most samples at a time that keep the peak below ``limit`` bytes; None if none do.

        Memory is taken to grow linearly with the piece, through the smallest and largest tried.
        """
        if self.memory <= limit:
            return self.whole_batch
        if not self.pieces:
            return None
        small = min(self.pieces)
        low, _ = self.pieces[small]
        slope = (self.memory - low) / (self.whole_batch - small)
        fits = small + math.floor((limit - low) / slope) if slope > 0 else 0
        return fits if fits >= 1 else None

    def text(self, limit: float | None = None) -> str:
        """The cost in a few lines; with the piece that fits ``limit`` bytes, if given."""
        config, start = self.config, acts_from(self.config)
        lines = {
            "steps": f"{config.steps:,} of {self.whole_batch} samples, "
            f"{self.evaluations} evaluations",
            "step": f"{self.step:.3g} s",
            "evaluation": f"{self.evaluation:.3g} s",
            "run": f"{clock(self.seconds)}, "
            f"{self.evaluations * self.evaluation / self.seconds:.0%} of it evaluation",
            "memory": f"{self.memory / 1e9:.2f} GB at the peak",
        }
        if start:
            lines["step"] += f"; {self.warmup_step:.3g} s before step {start:,}"
        if config.pretrain:
            phase = clock(config.pretrain * self.warmup_step)
            lines["run"] += f"; {phase} more for its ERM phase, unless that is done"
        for size, (memory, seconds) in self.pieces.items():
            ratio = seconds / self.step
            text = f"{memory / 1e9:.2f} GB at the peak, {ratio:.2f} times the time of a step"
            lines[f"--accumulate {size}"] = text
        if self.undivided:
            lines["--accumulate"] = f"not possible: {self.undivided}"
        if limit is not None:
            lines[f"fits in {limit / 1e9:g} GB"] = self._fitting(limit)
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())

    def _fitting(self, limit: float) -> str:
        piece = self.largest_piece(limit)
        if piece is None:
            smaller = "network or smaller inputs" if self.pieces else "batch"
            return f"does not fit; use a smaller {smaller}"
        return "the whole batch" if piece >= self.whole_batch else f"--accumulate {piece}"

    def to_json(self, limit: float | None = None) -> dict[str, object]:
        """The cost as values."""
        values: dict[str, object] = {
            "steps": self.config.steps,
            "batch": self.whole_batch,
            "evaluations": self.evaluations,
            "seconds_per_step": self.step,
            "seconds_per_warmup_step": self.warmup_step,
            "seconds_per_evaluation": self.evaluation,
            "seconds": self.seconds,
            "peak_memory": self.memory,
            "accumulate": {
                str(size): {"peak_memory": memory, "seconds_per_step": seconds}
                for size, (memory, seconds) in self.pieces.items()
            },
        }
        if limit is not None:
            values["largest_piece"] = self.largest_piece(limit)
        return values


def run_cost(
    config: RunConfig,
    *,
    device: torch.device | str = "cpu",
    data_dir: Path | None = None,
    domains: DomainSet | None = None,
    instances: Instances = NO_INSTANCES,
    pieces: bool = True,
    on_progress: OnProgress | None = None,
) -> Cost:
    """Estimate time and memory of a run from a few steps; nothing is written.

    Args:
        config: configuration of the run.
        device: device to train on.
        data_dir: folder that is searched first for files of the data set.
        domains: result of :func:`~riskmatch.engine.assemble.domains_of`, if it is loaded.
        instances: parts that ``config`` refers to by instance.
        pieces: also try an eighth and half of a batch at a time, see :func:`riskmatch.accumulate`.
        on_progress: called with each image that is read, decoded or embedded.
    """
    device = torch.device(device)
    with fork_random(device):
        assembly = assemble(config, device, data_dir, domains, on_progress, instances)
        stepper, undivided = assembly.stepper, _undivided(assembly)
        whole = len(next(assembly.sampler).y)
        stepper.memory.step = start = acts_from(config) or 0
        tried: dict[int, tuple[int, float]] = {}
        # Small pieces first: the process may keep the memory of larger ones.
        for size in sorted({math.ceil(whole / 8), math.ceil(whole / 2)}):
            if pieces and not undivided and not config.accumulate and size < whole:
                stepper.settings = replace(stepper.settings, accumulate=size)
                tried[size] = _probe(assembly, device)
        stepper.settings = replace(stepper.settings, accumulate=config.accumulate)
        memory, step = _probe(assembly, device)
        stepper.memory.step = 0
        warmup_step = _probe(assembly, device)[1] if start else step
        evaluation = _evaluation(assembly, config, device)
        return Cost(config, warmup_step, step, evaluation, memory, tried, whole, undivided)


def _probe(assembly: Assembly, device: torch.device) -> tuple[int, float]:
    """Peak memory and median seconds of a few steps."""

    def step() -> None:
        assembly.stepper.step(next(assembly.sampler))

    step()
    reset_peak_memory(device)
    seconds = [_timed(step, device) for _ in range(_STEPS)]
    return peak_memory(device), median(seconds)


def _evaluation(assembly: Assembly, config: RunConfig, device: torch.device) -> float:
    stepper, splits = assembly.stepper, assembly.splits
    samples = sum(map(len, parts_of(splits, config.eval_fraction, config.trial)))
    first = splits[stepper.domains[0]]["train"]
    some = first.take(torch.arange(min(_SAMPLES, len(first))).to(device))
    parts = parts_of({some.name: {"train": some}})
    predict(stepper.predictor, parts, assembly.task)
    seconds = _timed(lambda: predict(stepper.predictor, parts, assembly.task), device)
    return seconds * samples / len(some)


def _timed(action: Callable[[], object], device: torch.device) -> float:
    begun = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def _undivided(assembly: Assembly) -> str:
    try:
        check_splits(assembly.stepper.objective, "accumulate")
        check_batch_norm(assembly.stepper.model)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class SweepCost:
    """Time of the runs of a plan."""

    seconds: Mapping[str, float]
    """By method, of all its runs; of the ERM phases that runs share; of embedding data sets."""
    runs: Mapping[str, int]
    """How many there are of each."""
    memory: int
    """Peak memory of the run that needs most, in bytes."""
    cores: int
    """Cores that a run uses; 0 on a GPU."""
    durations: Sequence[float] = ()
    """Seconds of each run in the order of the plan, ERM phases first."""
    throughput: str = ""
    """The speed of the machines in question; empty for this one."""

    @property
    def total(self) -> float:
        """Seconds of everything, one after the other."""
        return sum(self.seconds.values())

    def wall_clock(self, workers: int) -> float:
        """Seconds until all runs are done, by workers that take the next run when they are free.

        Example:
            >>> SweepCost({"erm": 9.0}, {"erm": 3}, 0, 1, (4.0, 2.0, 3.0)).wall_clock(2)
            5.0
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}.")
        free = [self.seconds.get(_EMBEDDINGS, 0.0)] * min(workers, max(1, len(self.durations)))
        for seconds in self.durations:
            heapreplace(free, free[0] + seconds)
        return max(free)

    def text(self, workers: int | None = None) -> str:
        """The cost as a table, with the time that so many workers take together, if given."""
        rows = [(name, f"{n:,}", clock(self.seconds[name])) for name, n in self.runs.items()]
        rows.append(("total", f"{sum(self.runs.values()):,}", clock(self.total)))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        hours = self.total / 3600 * (self.cores or 1)
        unit = "worker" if self.throughput else "core" if self.cores else "GPU"
        hours = self.total / 3600 if self.throughput else hours
        lines.append(f"{hours:,.1f} {unit} hours, one run at a time")
        if workers is not None:
            seconds = self.wall_clock(workers)
            share = self.total / (workers * seconds) if seconds else 0.0
            days = f"{seconds / 86400:,.1f} days"
            lines.append(f"{days} on {workers:,} workers, {share:.0%} of their time in use")
        if self.throughput:
            lines.append(f"at {self.throughput}, as you state; shares of time are of this machine")
        lines.append(f"{self.memory / 1e9:.2f} GB of memory for the largest run")
        return "\n".join(lines)


def total_cost(
    configs: Sequence[RunConfig],
    *,
    device: torch.device | str = "cpu",
    data_dir: Path | None = None,
    throughput: str | float | None = None,
    on_progress: OnProgress | None = None,
) -> SweepCost:
    """Estimate the time of runs from one run of each method, network and data set.

    Steps of other batch sizes are taken to be proportional to the samples of a batch. Times are
    those of this machine, or of one with a ``throughput``: a factor such as ``"20x"``, or samples
    per second of training, which the fastest steps on each data set then have.
    """
    factor, rate = parse_throughput(throughput)
    probes: dict[tuple[object, ...], Cost] = {}
    loaded: dict[str, DomainSet] = {}
    embedding_seconds = 0.0

    def cost_of(config: RunConfig) -> Cost:
        nonlocal embedding_seconds
        source = _source(config)
        names = ("method", "model", "amp", "micro_batch", "accumulate")
        warm = acts_from(config) not in (0, None)
        key = (source, *(getattr(config, name) for name in names), warm)
        if key not in probes:
            if source not in loaded:
                begun = time.perf_counter()
                loaded.clear()  # one data set in memory at a time
                loaded[source] = domains_of(config, data_dir, device, on_progress)
                embedding_seconds += (time.perf_counter() - begun) * is_frozen(config)
            probes[key] = run_cost(config, device=device, domains=loaded[source], pieces=False)
        known = probes[key]
        share = (config.batch_size or 1) / (known.config.batch_size or 1)
        return replace(
            known, config=config, step=share * known.step, warmup_step=share * known.warmup_step
        )

    ordered = sorted(configs, key=_source)
    phases = {phase.id: phase for phase in (c.erm_phase() for c in ordered if c.pretrain)}
    costs = {config.id: cost_of(config) for config in [*ordered, *phases.values()]}
    factors = {_source(config): factor for config in ordered}
    if rate:
        fastest = defaultdict[str, float](float)
        for cost in probes.values():
            fastest[_source(cost.config)] = max(
                fastest[_source(cost.config)], cost.whole_batch / min(cost.step, cost.warmup_step)
            )
        factors = {source: rate / known for source, known in fastest.items()}
    seconds, runs = defaultdict[str, float](float), Counter[str]()
    durations = []
    named = [("ERM phases", phase) for phase in phases.values()]
    for name, config in [*named, *((config.method, config) for config in configs)]:
        durations.append(costs[config.id].seconds / factors[_source(config)])
        seconds[name] += durations[-1]
        runs[name] += 1
    if embedded := len({_source(config) for config in ordered if is_frozen(config)}):
        seconds[_EMBEDDINGS], runs[_EMBEDDINGS] = embedding_seconds / factor, embedded
    return SweepCost(
        seconds,
        runs,
        durations=durations,
        throughput=f"{rate:,g} samples per second" if rate else f"{factor:g}x" * (factor != 1),
        memory=max((probe.memory for probe in probes.values()), default=0),
        cores=torch.get_num_threads() if torch.device(device).type == "cpu" else 0,
    )


def parse_throughput(throughput: str | float | None) -> tuple[float, float | None]:
    """The factor of the speed of this machine, or samples per second.

    Raises:
        ValueError: ``throughput`` is neither.

    Example:
        >>> parse_throughput("20x"), parse_throughput(250), parse_throughput(None)
        ((20.0, None), (1.0, 250.0), (1.0, None))
    """
    if throughput is None:
        return 1.0, None
    text = str(throughput)
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ValueError(
            "throughput must be samples per second, as in 250, or a factor of the speed of this "
            f"machine, as in 20x, got {throughput!r}."
        )
    return (value, None) if text.endswith("x") else (1.0, value)


def _source(config: RunConfig) -> str:
    """What the inputs of a run depend on."""
    backbone = [config.model, config.model_options] if is_frozen(config) else []
    return to_json([config.data, config.data_options, *backbone])
