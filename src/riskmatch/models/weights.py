"""Weights from files, and a report where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

LINES = 12
"""Of the report, at most."""


class WeightsError(ValueError):
    """Weights are not to be had, or do not fit."""


def load_weights(body: nn.Module, path: Path | str, classifier: tuple[str, ...] = ()) -> None:
    """Fill ``body`` with the weights of a file: safetensors, or a torch checkpoint of tensors.

    Args:
        body: the network.
        path: of the file. Where it holds more than weights, they are looked for under
            ``state_dict`` and ``model``.
        classifier: layers of the file that the network does without.

    Raises:
        WeightsError: with a table of what is missing, unexpected or of another shape.
    """
    heads = tuple(f"{layer}." for layer in classifier)
    found = {name: value for name, value in _read(Path(path)).items() if not name.startswith(heads)}
    wanted = body.state_dict()
    report = _report(found, wanted)
    if report:
        raise WeightsError(f"The weights in {path} do not fit: {report}")
    body.load_state_dict(found)


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise WeightsError(f"There is no file {path} to take weights from.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        cause = str(error).partition("\n")[0]
        raise WeightsError(
            f"{path} is neither a safetensors file nor a torch checkpoint of plain tensors: {cause}"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise WeightsError(f"{path} holds no table of weights by name.")
    return content


def _report(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """How the two differ in names and shapes; empty where they do not."""
    missing = [name for name in wanted if name not in found]
    unexpected = [name for name in found if name not in wanted]
    shapes = [n for n, value in wanted.items() if n in found and found[n].shape != value.shape]
    rows = [
        (name, *(str(tuple(side[name].shape)) if name in side else "–" for side in (found, wanted)))
        for name in [*shapes, *missing, *unexpected]
    ]
    if not rows:
        return ""
    counts = {"of another shape": shapes, "missing": missing, "unexpected": unexpected}
    summary = ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names)
    table = [("name", "in the file", "in the network"), *rows[:LINES]]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    more = [f"and {len(rows) - LINES} more"] if len(rows) > LINES else []
    return "\n  ".join([f"{summary}.", *lines, *more])
