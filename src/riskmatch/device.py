"""The device of a run: its name and its memory."""

from __future__ import annotations

import ctypes
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

_PROCESS = Path("/proc/self")
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # parameters of glibc's mallopt
_KEPT_BYTES = 1 << 30


def resolve_device(name: str) -> str:
    """Device that ``name`` means; ``auto`` is a GPU if there is one, else the CPU.

    Example:
        >>> resolve_device("cpu")
        'cpu'

    Raises:
        ValueError: the device does not exist.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.device(name)
    except RuntimeError:  # its message lists devices of all kinds
        raise ValueError(
            f"Device {name} is not available: give cpu, cuda, cuda:1, mps or auto."
        ) from None
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        cause = str(error).splitlines()[0].rstrip(".")
        if "aten::" in cause or not cause:  # the names of all backends that torch knows
            cause = "torch has none on this machine"
        raise ValueError(
            f"Device {name} is not available: {cause}. Give {_available()} or auto."
        ) from error
    return name


def _available() -> str:
    import torch

    names = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return ", ".join(["cpu", *names])


def device_of(model: nn.Module) -> torch.device:
    """Device of the weights of a network; the CPU if it has none."""
    import torch

    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def fork_random(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random streams of the CPU, and of ``device`` if it is a GPU, at the end."""
    import torch

    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def reset_peak_memory(device: torch.device) -> None:
    """Let :func:`peak_memory` count from now on.

    On Linux, memory that earlier runs freed is returned to the system first, and the high-water
    mark of the process is reset. Other systems keep the mark.
    """
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
        (_PROCESS / "clear_refs").write_text("5")


def peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of the tensors on a GPU, or else of the process.

    On Linux, files mapped into memory, such as the cache of images, do not count.
    """
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, KeyError):
        lines = (_PROCESS / "status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return 1024 * (int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0]))
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for the next step instead of returning it.

    By default glibc returns the large blocks of a step's activations to the system, which clears
    them page by page when the next step allocates them again; on large batches this takes about as
    long as the arithmetic. The setting applies to the whole process, whose resident memory then
    stays at its peak.

    Returns:
        Whether the C library supports the setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _KEPT_BYTES) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))
