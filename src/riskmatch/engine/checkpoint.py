"""Checkpoints: the state of a run between two steps, saved without pickle.

A checkpoint is one safetensors file that is written whole or not at all. Its header holds the
plain values as JSON and a checksum over values and tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from riskmatch.contract import OptimFactory, OptimSpec
from riskmatch.data.sampler import Sampler
from riskmatch.engine.averaging import WeightAverage
from riskmatch.engine.step import Stepper
from riskmatch.files import check_regular, make_folder, refuse_link, write_whole
from riskmatch.models.embedding import hash_tensors
from riskmatch.runs.records import CHECKPOINTS
from riskmatch.validation import check_json

FOLDER = CHECKPOINTS
"""Folder of the checkpoints in the folder of a run."""
FORMAT = "riskmatch checkpoint 1"
KEPT = 2
"""Number of latest checkpoints that are kept in any case."""
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Snapshot:
    """State of a run between two steps."""

    values: Mapping[str, Any]
    """Plain values: the step, the optimiser's phase and settings, the position of the sampler."""
    tensors: Mapping[str, Tensor]
    """Copies of weights and buffers, optimiser state, the objective's memory, random streams."""

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.values["step"])

    @property
    def notes(self) -> Mapping[str, Any]:
        """Further plain values, as given to :func:`capture`."""
        return dict(self.values["notes"])

    def weights(self) -> dict[str, Tensor]:
        """State dict of the network as it was evaluated: averaged, where the run averages."""
        return dict(_under("averaged/", self.tensors)) or self.raw_weights()

    def raw_weights(self) -> dict[str, Tensor]:
        """State dict of the network in training."""
        return dict(_under("model/", self.tensors))


def capture(
    stepper: Stepper,
    sampler: Sampler,
    notes: Mapping[str, Any],
    average: WeightAverage | None = None,
    averaged: Mapping[str, Tensor] | None = None,
) -> Snapshot:
    """Copy the state of a run.

    Args:
        stepper: network, optimiser and method.
        sampler: the training batches.
        notes: plain values to keep with it.
        average: state of the averaged weights.
        averaged: state dict of the averaged network, where it was evaluated at this step.
    """
    memory, groups, plain = stepper.memory, [], {}
    tensors = {f"model/{name}": value for name, value in stepper.model.state_dict().items()}
    if stepper.optimizer is not None:
        state = stepper.optimizer.state_dict()
        groups = state["param_groups"]
        for number, entry in state["state"].items():
            for name, value in entry.items():
                key = f"{number}/{name}"
                if isinstance(value, Tensor):
                    tensors[f"optimizer/{key}"] = value
                else:
                    plain[key] = value
    tensors |= {f"memory/{name}": value for name, value in memory.state.items()}
    tensors |= _streams(memory.generator)
    tensors |= {f"averaged/{name}": value for name, value in (averaged or {}).items()}
    averages = {}
    if average is not None:
        averages["average"], means = average.state()
        tensors |= {f"average/{name}": value for name, value in means.items()}
    values = {
        **averages,
        "step": memory.step,
        "base": _spec_values(memory.base),
        "spec": None if stepper.spec is None else _spec_values(stepper.spec),
        "phase_start": stepper.phase_start,
        "optimizer_groups": groups,
        "optimizer_values": plain,
        "sampler": sampler.state(),
        "notes": dict(notes),
    }
    copies = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    return Snapshot(values, copies)


def restore(
    snapshot: Snapshot,
    stepper: Stepper,
    sampler: Sampler,
    average: WeightAverage | None = None,
) -> Mapping[str, Any]:
    """Set a run to the state of a snapshot; return the notes.

    Raises:
        ValueError: the weights do not fit the network, or other values are damaged.
    """
    load_weights(stepper.model, snapshot.raw_weights(), snapshot.step)
    try:
        check_json(snapshot.values, _SCHEMA)
        for name, schema in (("spec", _SPEC), ("average", _AVERAGE)):
            if snapshot.values.get(name) is not None:
                check_json(snapshot.values[name], schema, name)
        _restore(snapshot, stepper, sampler, average)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        cause = " ".join(str(error).split()).rstrip(".")
        cause = f"{cause} is missing" if isinstance(error, KeyError) else cause
        raise ValueError(
            f"The checkpoint of step {snapshot.step} is damaged: {cause}. Remove its file to "
            "continue from the one before."
        ) from error
    return snapshot.notes


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], step: int) -> None:
    """Load the weights of the checkpoint of a step.

    Raises:
        ValueError: they do not fit the network.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"The checkpoint of step {step} does not fit the network: the data, or the package of "
            "the network, have changed. Restore them to continue, or remove the folder of the run "
            "to start again."
        ) from error


_SPEC = {"kind": str, "lr": float, "weight_decay": float}
_AVERAGE = {
    "means": [Sequence[float]],
    "threshold": float | None,
    "observed": int,
    "ended": bool,
}
_SCHEMA: dict[str, Any] = {
    "base": _SPEC,
    "phase_start": int,
    "optimizer_groups": [{"params": Sequence[int]}],
    "optimizer_values": {},
    "sampler": {"drawn": int},
    "notes": {},
}
"""Plain values that :func:`restore` reads, and their types."""


def _restore(
    snapshot: Snapshot, stepper: Stepper, sampler: Sampler, average: WeightAverage | None
) -> None:
    """Restore everything but the weights."""
    values, memory = snapshot.values, stepper.memory
    device = next(stepper.model.parameters()).device
    factory = memory.base.factory
    memory.step, memory.base = snapshot.step, _spec(values["base"], factory)
    memory.state = {name: v.to(device) for name, v in _under("memory/", snapshot.tensors)}
    stepper.phase_start = values["phase_start"]
    if values["spec"] is not None:
        stepper.spec = _spec(values["spec"], factory)
        stepper.optimizer = stepper.spec.build(stepper.trainable())
        stepper.optimizer.load_state_dict(_optimizer_state(snapshot))
    if average is not None and "average" in values:
        means = {name: v.to(device) for name, v in _under("average/", snapshot.tensors)}
        average.restore(values["average"], means)
    sampler.restore(values["sampler"])
    _restore_streams(snapshot.tensors, memory.generator)


_NOTES: dict[str, Any] = {"input_shape": Sequence[int], "numbers": {}, "seconds": float}
"""Notes of the training loop, and their types."""


class NoCheckpointError(FileNotFoundError):
    """A run has no checkpoint of the step that is asked for, or to continue from."""


class CheckpointError(ValueError):
    """A file is not a valid checkpoint of the run."""


def save(folder: Path, run: str, snapshot: Snapshot, keep: Iterable[int] | None = ()) -> Path:
    """Write a checkpoint of the run with the id ``run``.

    The last two are kept and those of the steps ``keep``, or all where it is None.
    """
    make_folder(folder)
    values = json.dumps(snapshot.values, sort_keys=True)
    header = {"format": FORMAT, "run": run, "values": values}
    header["sha256"] = _checksum(header, dict(snapshot.tensors))
    path = path_of(folder, snapshot.step)
    write_whole(path, to_bytes(dict(snapshot.tensors), header))
    kept = None if keep is None else {path_of(folder, step) for step in keep}
    for stale in [*_checkpoints(folder)[:-KEPT], *folder.glob("*.tmp")]:
        if stale.suffix != SUFFIX or (kept is not None and stale not in kept):
            stale.unlink()
    return path


def path_of(folder: Path, step: int) -> Path:
    """Path of the checkpoint of a step."""
    return folder / f"{step:08d}{SUFFIX}"


def exists(folder: Path, step: int | None = None) -> bool:
    """Whether the folder holds a checkpoint of ``step``, or any, readable or not."""
    paths = _checkpoints(folder)
    return bool(paths) if step is None else path_of(folder, step) in paths


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
            values = json.loads(header["values"])
            check_json(values, {"step": int, "notes": {}})
            for name in _NOTES.keys() & values["notes"].keys():
                check_json(values["notes"][name], _NOTES[name], f"notes.{name}")
    except CheckpointError:
        raise
    except (SafetensorError, KeyError, RecursionError, ValueError) as error:
        cause = str(error).rstrip(".")
        raise CheckpointError(f"{path.name} is truncated or damaged: {cause}.") from error
    snapshot = Snapshot(values, tensors)
    if snapshot.step > steps:
        raise CheckpointError(
            f"{path.name} is of step {snapshot.step:,}, and the run has {steps:,} steps."
        )
    return snapshot


def load_last(folder: Path, run: str, steps: float = math.inf) -> tuple[Snapshot | None, list[str]]:
    """Read the newest valid checkpoint, see :func:`load`; return it and the faults of newer ones.

    An invalid file is renamed, so that it is not tried again.

    Raises:
        OSError: a file cannot be read, which says nothing about its content.
    """
    refuse_link(folder)
    faults: list[str] = []
    for path in reversed(_checkpoints(folder)):
        try:
            return load(path, run, steps), faults
        except CheckpointError as error:
            faults.append(str(error))
            path.rename(path.with_suffix(".refused"))
    return None, faults


def clear(folder: Path) -> None:
    """Remove all checkpoints."""
    refuse_link(folder)
    for path in _checkpoints(folder):
        path.unlink()


def _checkpoints(folder: Path) -> list[Path]:
    """Checkpoints in order of their steps; other files are left alone."""
    try:
        files = [path for path in folder.iterdir() if path.suffix == SUFFIX]
        return sorted(path for path in files if path.stem.isdecimal())
    except FileNotFoundError:
        return []


def _checksum(header: dict[str, str], tensors: dict[str, Tensor]) -> str:
    return hash_tensors(tensors, json.dumps(header, sort_keys=True))


def _spec_values(spec: OptimSpec) -> dict[str, Any]:
    """Plain values of an optimiser's settings; a function that makes it is not saved."""
    return {item.name: getattr(spec, item.name) for item in fields(spec) if item.name != "factory"}


def _spec(values: Mapping[str, Any], factory: OptimFactory | None) -> OptimSpec:
    return OptimSpec(**values, factory=factory if values["kind"] == "factory" else None)


def _optimizer_state(snapshot: Snapshot) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    parts = [
        *_under("optimizer/", snapshot.tensors),
        *snapshot.values["optimizer_values"].items(),
    ]
    for key, value in parts:
        number, name = key.split("/", 1)
        state.setdefault(int(number), {})[name] = value
    groups = [
        # JSON has no tuples: every list of a group except its parameters was one.
        {k: tuple(v) if isinstance(v, list) and k != "params" else v for k, v in group.items()}
        for group in snapshot.values["optimizer_groups"]
    ]
    return {"state": state, "param_groups": groups}


def _streams(generator: torch.Generator) -> dict[str, Tensor]:
    streams = {"random/torch": torch.get_rng_state(), "random/method": generator.get_state()}
    if torch.cuda.is_available():
        states = torch.cuda.get_rng_state_all()
        streams |= {f"random/cuda/{number}": state for number, state in enumerate(states)}
    return streams


def _restore_streams(tensors: Mapping[str, Tensor], generator: torch.Generator) -> None:
    torch.set_rng_state(tensors["random/torch"])
    generator.set_state(tensors["random/method"])
    if torch.cuda.is_available():
        for number, state in _under("random/cuda/", tensors):
            torch.cuda.set_rng_state(state, int(number))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, value in tensors.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), value
