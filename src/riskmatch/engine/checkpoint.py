"""Checkpoints: the state of a run between two steps, saved without pickle.

A checkpoint is one safetensors file that is written whole or not at all. Its header holds the
plain values as JSON and a checksum over values and tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from riskmatch.contract import OptimSpec, Predictor, Shape
from riskmatch.data.sampler import Sampler
from riskmatch.device import device_of
from riskmatch.engine.averaging import AverageState, WeightAverage
from riskmatch.engine.step import Phase, Stepper
from riskmatch.files import check_regular, make_folder, refuse_link, write_whole
from riskmatch.models.embedding import hash_tensors
from riskmatch.runs.records import CHECKPOINTS, checkpoints

FORMAT = "riskmatch checkpoint 2"
KEPT = 2
"""Number of latest checkpoints that are kept in any case."""


class NoCheckpointError(FileNotFoundError):
    """A run has no checkpoint of the step that is asked for, or to continue from."""


class CheckpointError(ValueError):
    """A file is not a valid checkpoint of the run."""


class Notes(msgspec.Struct, frozen=True):
    """What the training loop keeps with a checkpoint."""

    numbers: dict[str, float]
    """What the last step returned."""
    seconds: float
    """Seconds that the run has taken."""
    input_shape: tuple[int, ...]
    """Shape of one input of the network."""
    outputs: int = 0
    """Number of outputs of the network; 0 for one of each class."""
    modules: Shape | None = None
    """What the networks of the method were built for."""
    predicts: bool = False
    """Whether the method has a prediction of its own."""


class PhaseValues(msgspec.Struct, frozen=True):
    """The plain values of an optimiser."""

    spec: OptimSpec
    start: int
    groups: list[dict[str, Any]]
    values: dict[str, Any]
    """State that is not in tensors."""


class Values(msgspec.Struct, frozen=True):
    """The plain values of a checkpoint."""

    step: int
    """Number of steps taken."""
    base: OptimSpec
    """Optimiser as configured; a function that makes it is not saved."""
    phases: dict[str, PhaseValues]
    """Optimisers by name; none before the first step."""
    sampler: dict[str, int]
    notes: Notes
    average: AverageState | None = None


@dataclass(frozen=True)
class Snapshot:
    """State of a run between two steps."""

    values: Values
    tensors: Mapping[str, Tensor]
    """Copies of weights and buffers, optimiser state, the objective's memory, random streams."""

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return self.values.step

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors of a group: ``model``, ``averaged``, ``optimizer``, ``memory`` and so on."""
        prefix = f"{name}/"
        named = self.tensors.items()
        return {key.removeprefix(prefix): v for key, v in named if key.startswith(prefix)}

    def load(self, model: nn.Module) -> None:
        """Load the weights as they were evaluated: averaged, where the run averages.

        Args:
            model: the network, or with its modules a method that predicts otherwise.

        Raises:
            ValueError: they do not fit.
        """
        weights = self.group("averaged") or self.group("model")
        if isinstance(model, Predictor) and not self.group("averaged"):
            named = {"network": self.group("model"), "brought": self.group("modules")}
            weights = {f"{part}.{k}": v for part, group in named.items() for k, v in group.items()}
        load_weights(model, weights, self.step)


def capture(
    stepper: Stepper,
    sampler: Sampler,
    notes: Notes,
    average: WeightAverage | None = None,
    averaged: Mapping[str, Tensor] | None = None,
) -> Snapshot:
    """Copy the state of a run.

    Args:
        stepper: network, optimiser and method.
        sampler: the training batches.
        notes: what to keep with it.
        average: state of the averaged weights.
        averaged: state dict of what was evaluated at this step, where it was averaged.
    """
    memory = stepper.memory
    phases, states = dict[str, PhaseValues](), dict[str, Tensor]()
    for name, phase in stepper.phases.items():
        state = phase.optimizer.state_dict()
        entries = {
            f"{number}/{key}": value
            for number, entry in state["state"].items()
            for key, value in entry.items()
        }
        rest = {key: value for key, value in entries.items() if not isinstance(value, Tensor)}
        spec = replace(phase.spec, factory=None)
        phases[name] = PhaseValues(spec, phase.start, state["param_groups"], rest)
        states |= {f"{name}/{k}": v for k, v in entries.items() if isinstance(v, Tensor)}
    means, mean_tensors = (None, {}) if average is None else average.state()
    groups: dict[str, Mapping[str, Any]] = {
        "model": stepper.model.state_dict(),
        "modules": memory.modules.state_dict(),
        "optimizer": states,
        "memory": memory.state,
        "random": _random_states(memory.generator),
        "averaged": averaged or {},
        "average": mean_tensors,
    }
    values = Values(
        step=memory.step,
        base=replace(memory.base, factory=None),
        phases=phases,
        sampler=sampler.state(),
        notes=notes,
        average=means,
    )
    tensors = {
        f"{group}/{name}": value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for group, named in groups.items()
        for name, value in named.items()
    }
    return Snapshot(values, tensors)


def restore(
    snapshot: Snapshot,
    stepper: Stepper,
    sampler: Sampler,
    average: WeightAverage | None = None,
) -> Notes:
    """Set a run to the state of a snapshot; return the notes.

    Raises:
        ValueError: the weights do not fit the network, or other values are damaged.
    """
    load_weights(stepper.model, snapshot.group("model"), snapshot.step)
    if modules := snapshot.group("modules"):  # an ERM phase has none
        load_weights(stepper.memory.modules, modules, snapshot.step)
    try:
        _restore(snapshot, stepper, sampler, average)
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        cause = " ".join(str(error).split()).rstrip(".")
        cause = f"{cause} is missing" if isinstance(error, KeyError) else cause
        raise ValueError(
            f"The checkpoint of step {snapshot.step} is damaged: {cause}. Remove its file."
        ) from error
    return snapshot.values.notes


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], step: int) -> None:
    """Load the weights of the checkpoint of a step.

    Raises:
        ValueError: they do not fit the network.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"The checkpoint of step {step} does not fit the network: data or package changed. "
            "Restore them to continue, or remove the folder of the run to start again."
        ) from error


def load_start(model: nn.Module, path: Path) -> None:
    """Load the network before the first step of a run from its file.

    Raises:
        ValueError: the file is damaged, or does not fit the network.
    """
    check_regular(path)
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged: {error}. Remove the run's folder.") from error
    load_weights(model, weights, 0)


def _restore(
    snapshot: Snapshot, stepper: Stepper, sampler: Sampler, average: WeightAverage | None
) -> None:
    """Restore everything but the weights."""
    values, memory, device = snapshot.values, stepper.memory, device_of(stepper.model)
    factory = memory.base.factory
    memory.step, memory.base = values.step, _with_factory(values.base, factory)
    memory.state = {name: value.to(device) for name, value in snapshot.group("memory").items()}
    for name, phase in values.phases.items():
        spec = _with_factory(phase.spec, factory)
        optimizer = spec.build(stepper.weights(name))
        optimizer.load_state_dict(_optimizer_state(phase, snapshot.group(f"optimizer/{name}")))
        stepper.phases[name] = Phase(spec, phase.start, optimizer)
    if average is not None and values.average is not None:
        means = {name: value.to(device) for name, value in snapshot.group("average").items()}
        average.restore(values.average, means)
    sampler.restore(values.sampler)
    _restore_random(snapshot.group("random"), memory.generator)


def save(folder: Path, run: str, snapshot: Snapshot, keep: Iterable[int] | None = ()) -> Path:
    """Write a checkpoint to the folder of the run with the id ``run``.

    The last two are kept and those of the steps ``keep``, or all where it is None.
    """
    make_folder(folder / CHECKPOINTS)
    values = json.dumps(msgspec.to_builtins(snapshot.values))
    header = {"format": FORMAT, "run": run, "values": values}
    header["sha256"] = _checksum(header, snapshot.tensors)
    path = path_of(folder, snapshot.step)
    write_whole(path, to_bytes(dict(snapshot.tensors), header))
    stored = checkpoints(folder)
    kept = stored.keys() if keep is None else {*sorted(stored)[-KEPT:], *keep}
    stale = [path for step, path in stored.items() if step not in kept]
    for file in [*stale, *(folder / CHECKPOINTS).glob("*.tmp")]:
        file.unlink()
    return path


def path_of(folder: Path, step: int) -> Path:
    """Path of the checkpoint of a step in the folder of a run."""
    return folder / CHECKPOINTS / f"{step:08d}.safetensors"


def load(path: Path, run: str, steps: float = math.inf) -> Snapshot:
    """Read a checkpoint of the run with the id ``run``, which has so many steps.

    Raises:
        CheckpointError: the file is damaged, is a checkpoint of another run or of a step that the
            run does not have.
        OSError: the file cannot be read.
    """
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            if header.get("format") != FORMAT:
                format_ = header.get("format", "none")
                raise CheckpointError(f"{path.name} has the format '{format_}', not '{FORMAT}'.")
            if header["run"] != run:
                raise CheckpointError(f"{path.name} belongs to run {header['run']}, not {run}.")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if header.pop("sha256") != _checksum(header, tensors):
                raise CheckpointError(f"{path.name} is damaged: its checksum does not match.")
            values = msgspec.convert(json.loads(header["values"]), Values)
    except CheckpointError:
        raise
    except (SafetensorError, KeyError, RecursionError, ValueError) as error:
        cause = str(error).rstrip(".")
        raise CheckpointError(f"{path.name} is truncated or damaged: {cause}.") from error
    if values.step > steps:
        raise CheckpointError(
            f"{path.name} is of step {values.step:,}, and the run has {steps:,} steps."
        )
    return Snapshot(values, tensors)


def load_last(folder: Path, run: str, steps: float = math.inf) -> tuple[Snapshot | None, list[str]]:
    """Read the newest valid checkpoint in the folder of a run, see :func:`load`.

    An invalid file is renamed, so that it is not tried again.

    Returns:
        The snapshot, or None without any, and the faults of newer checkpoints.

    Raises:
        OSError: a file cannot be read, which says nothing about its content.
    """
    refuse_link(folder / CHECKPOINTS)
    faults: list[str] = []
    for path in reversed(checkpoints(folder).values()):
        try:
            return load(path, run, steps), faults
        except CheckpointError as error:
            faults.append(str(error))
            path.rename(path.with_suffix(".refused"))
    return None, faults


def clear(folder: Path) -> None:
    """Remove all checkpoints in the folder of a run."""
    refuse_link(folder / CHECKPOINTS)
    for path in checkpoints(folder).values():
        path.unlink()


def _checksum(header: dict[str, str], tensors: Mapping[str, Tensor]) -> str:
    return hash_tensors(tensors, json.dumps(header, sort_keys=True))


def _with_factory(spec: OptimSpec, factory: Any) -> OptimSpec:
    """A saved optimiser with the function that makes it, where one does."""
    return replace(spec, factory=factory if spec.kind == "factory" else None)


def _optimizer_state(phase: PhaseValues, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **phase.values}.items():
        number, name = key.split("/", 1)
        state.setdefault(int(number), {})[name] = value
    groups = [
        # JSON has no tuples: every list of a group except its parameters was one.
        {k: tuple(v) if isinstance(v, list) and k != "params" else v for k, v in group.items()}
        for group in phase.groups
    ]
    return {"state": state, "param_groups": groups}


def _random_states(generator: torch.Generator) -> dict[str, Tensor]:
    """States of torch's random streams and of the method's."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    states = {f"cuda/{number}": state for number, state in enumerate(gpus)}
    return {"torch": torch.get_rng_state(), "method": generator.get_state(), **states}


def _restore_random(states: Mapping[str, Tensor], generator: torch.Generator) -> None:
    torch.set_rng_state(states["torch"])
    generator.set_state(states["method"])
    if torch.cuda.is_available():
        for name in states.keys() - {"torch", "method"}:
            torch.cuda.set_rng_state(states[name], int(name.removeprefix("cuda/")))
