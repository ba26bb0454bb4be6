"""Snapshots on the disk: one safetensors file each, whole or absent, and never a pickle.

The header of the file carries the values as JSON and a checksum over values and tensors.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from riskmatch.engine.snapshot import Snapshot
from riskmatch.files import write_whole

FORMAT = "riskmatch checkpoint 1"
KEPT = 2
SUFFIX = ".safetensors"


class CheckpointError(ValueError):
    """A file is no checkpoint of this run, or no longer one."""


def save(folder: Path, run: str, snapshot: Snapshot) -> Path:
    """Write a checkpoint of the run with the id ``run``; the last two are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    values = json.dumps(snapshot.values, sort_keys=True)
    header = {"format": FORMAT, "run": run, "values": values}
    header["sha256"] = _checksum(header, dict(snapshot.tensors))
    path = path_of(folder, snapshot.step)
    write_whole(path, to_bytes(dict(snapshot.tensors), header))
    for stale in [*_checkpoints(folder)[:-KEPT], *folder.glob("*.tmp")]:
        stale.unlink()
    return path


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is, if it is there."""
    return folder / f"{step:08d}{SUFFIX}"


def exists(folder: Path) -> bool:
    """Whether there is any checkpoint to go on from."""
    return bool(_checkpoints(folder))


def load(path: Path, run: str) -> Snapshot:
    """Read a checkpoint of the run with the id ``run``, or raise :class:`CheckpointError`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            if header.get("format") != FORMAT:
                found = header.get("format", "none")
                raise CheckpointError(f"{path.name} has the format '{found}', not '{FORMAT}'.")
            if header["run"] != run:
                raise CheckpointError(f"{path.name} belongs to run {header['run']}, not {run}.")
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
            if header.pop("sha256") != _checksum(header, tensors):
                raise CheckpointError(f"{path.name} is damaged: its checksum does not match.")
    except (SafetensorError, OSError, KeyError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path.name} is truncated or damaged: {error}") from error
    return Snapshot(json.loads(header["values"]), tensors)


def load_last(folder: Path, run: str) -> tuple[Snapshot | None, list[str]]:
    """The newest checkpoint that can be read, and why each newer one was refused.

    What is refused is set aside under another name, so that it is not met again.
    """
    reasons: list[str] = []
    for path in reversed(_checkpoints(folder)):
        try:
            return load(path, run), reasons
        except CheckpointError as error:
            reasons.append(str(error))
            path.rename(path.with_suffix(".refused"))
    return None, reasons


def clear(folder: Path) -> None:
    """Remove every checkpoint, for a run that starts again."""
    for path in _checkpoints(folder):
        path.unlink()


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _checksum(header: dict[str, str], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
