"""Everything a step depends on, as tensors and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from riskmatch.contract import OptimSpec
from riskmatch.data.sampler import Sampler
from riskmatch.engine.step import Stepper


@dataclass(frozen=True)
class Snapshot:
    """A run between two steps."""

    values: Mapping[str, Any]
    """JSON: the step, the optimiser's phase and settings, where the batches are."""
    tensors: Mapping[str, Tensor]
    """Weights and buffers, optimiser, the objective's memory, random streams; copies."""

    @property
    def step(self) -> int:
        """How many steps had been taken."""
        return int(self.values["step"])


def capture(stepper: Stepper, sampler: Sampler, notes: Mapping[str, Any]) -> Snapshot:
    """The state of a run; ``notes`` are plain values to keep with it."""
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
    values = {
        "step": memory.step,
        "base": asdict(memory.base),
        "spec": None if stepper.spec is None else asdict(stepper.spec),
        "phase_start": stepper.phase_start,
        "optimizer_groups": groups,
        "optimizer_values": plain,
        "sampler": sampler.state(),
        "notes": dict(notes),
    }
    return Snapshot(values, {name: _copy(value) for name, value in tensors.items()})


def restore(snapshot: Snapshot, stepper: Stepper, sampler: Sampler) -> Mapping[str, Any]:
    """Put a run back to where it was; returns the notes.

    Raises:
        ValueError: the weights are those of another network.
    """
    values, memory = snapshot.values, stepper.memory
    try:
        stepper.model.load_state_dict(dict(_under("model/", snapshot.tensors)))
    except RuntimeError as error:
        raise ValueError(
            f"The checkpoint of step {snapshot.step} does not fit the network: its data, or the "
            "package it comes from, have changed. Restore them to go on, or remove the folder of "
            "the run to start again."
        ) from error
    device = next(stepper.model.parameters()).device
    memory.step, memory.base = snapshot.step, OptimSpec(**values["base"])
    memory.state = {name: v.to(device) for name, v in _under("memory/", snapshot.tensors)}
    stepper.phase_start = values["phase_start"]
    if values["spec"] is not None:
        stepper.spec = OptimSpec(**values["spec"])
        stepper.optimizer = stepper.spec.build(stepper.trainable())
        stepper.optimizer.load_state_dict(_optimizer_state(snapshot))
    sampler.restore(values["sampler"])
    _restore_streams(snapshot.tensors, memory.generator)
    return dict(values["notes"])


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
        # JSON has no tuples: every list of a group but that of its parameters was one.
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


def _copy(value: Tensor) -> Tensor:
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)
