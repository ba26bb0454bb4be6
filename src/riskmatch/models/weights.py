"""Weights and networks of other origin: files that fit, finite values, a limit of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from riskmatch.limits import allowed, check_limit

MAX_LINES, MAX_WIDTH = 12, 200
"""Most lines of a message on weights that do not fit, and characters of each."""
_FACTORIES: set[Callable[..., Any]] = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn
}  # fmt: skip


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


@contextmanager
def bounded_build(subject: str, limit: float) -> Iterator[None]:
    """Raise ``LimitError`` if the tensors that are created inside take more than ``limit`` bytes.

    Tensors beyond the limit are created without memory, on the meta device, so that all are
    counted.

    Example:
        >>> with bounded_build("The network takes", 10**6):  # doctest: +ELLIPSIS
        ...     layer = torch.nn.Linear(10**6, 10**6)
        Traceback (most recent call last):
        riskmatch.limits.LimitError: The network takes 4,000.0 GB; the limit is 1 MB. ...
    """
    counting = _Counting(allowed(limit))
    try:
        with counting:
            yield
    finally:
        check_limit(subject, counting.bytes, limit)


def check_finite(weights: Mapping[str, Tensor], network: nn.Module) -> None:
    """Raise ``ValueError`` if a weight is not finite; a buffer may hold −∞, as masks do."""
    parameters = {name for name, _ in network.named_parameters()}
    for name, value in weights.items():
        wrong = ~value.isfinite()
        if name not in parameters:
            wrong &= value != -torch.inf
        if count := int(wrong.sum()):
            raise ValueError(
                f"{count:,} of {value.numel():,} values of {name!r} are infinite or NaN. Train the "
                "model again, with a lower learning rate if its risk diverged."
            )


class _Counting(TorchFunctionMode):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit, self.bytes = limit, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES and "out" not in kwargs:
            meta = {k: v for k, v in kwargs.items() if k not in ("generator", "pin_memory")}
            meta["device"] = "meta"
            self.bytes += func(*args, **meta).nbytes
            kwargs = meta if self.bytes > self.limit else kwargs
        return func(*args, **kwargs)
