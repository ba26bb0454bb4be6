"""Load weights from files, and report where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

MAX_LINES, MAX_WIDTH = 12, 200
"""Most lines of a message on weights that do not fit, and characters of each."""


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
    try:
        body.load_state_dict(state)
    except RuntimeError as error:  # which lists every name and shape that differs
        lines = [shorten(line, MAX_WIDTH, placeholder=" …") for line in str(error).splitlines()[1:]]
        more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
        listed = "\n  ".join(["", *lines[:MAX_LINES], *more])
        raise WeightsError(f"The weights in {path} do not fit:{listed}") from error


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
