"""Load weights from files, and report where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

MAX_ROWS = 12
"""Most rows in the table of a report."""


class WeightsError(ValueError):
    """Weights cannot be loaded, or do not fit the network."""


def load_weights(body: nn.Module, path: Path | str, classifier: tuple[str, ...] = ()) -> None:
    """Load weights from a safetensors file or a torch checkpoint into ``body``.

    Args:
        body: network to load into.
        path: file of the weights. In a checkpoint with further entries, they are expected under
            ``state_dict`` or ``model``.
        classifier: layers of the file that the network does not have.

    Raises:
        WeightsError: the file cannot be read, or weights are missing, unexpected or of another
            shape; the message lists them.
    """
    heads = tuple(f"{layer}." for layer in classifier)
    state = {name: value for name, value in _read(Path(path)).items() if not name.startswith(heads)}
    report = _report(state, body.state_dict())
    if report:
        raise WeightsError(f"The weights in {path} do not fit: {report}")
    body.load_state_dict(state)


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise WeightsError(f"The file of weights {path} does not exist.")
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
        raise WeightsError(f"{path} does not hold a mapping of names to tensors.")
    return content


def _report(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Table of the differences in names and shapes; empty if there are none."""
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    shapes = [n for n, value in expected.items() if n in state and state[n].shape != value.shape]
    rows = [
        (name, *(str(tuple(s[name].shape)) if name in s else "–" for s in (state, expected)))
        for name in [*shapes, *missing, *unexpected]
    ]
    if not rows:
        return ""
    counts = {"of another shape": shapes, "missing": missing, "unexpected": unexpected}
    summary = ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names)
    table = [("name", "in the file", "in the network"), *rows[:MAX_ROWS]]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    more = [f"and {len(rows) - MAX_ROWS} more"] if len(rows) > MAX_ROWS else []
    return "\n  ".join([f"{summary}.", *lines, *more])
