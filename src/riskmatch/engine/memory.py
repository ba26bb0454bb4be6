"""How much memory a run takes, in a process that may have had others before it."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

import torch

_PROCESS = Path("/proc/self")


def forget_peak(device: torch.device) -> None:
    """Let :func:`peak_memory` count from here.

    On Linux what earlier runs left free goes back to the system first, and the process's high-water
    mark comes down to what it holds. Other systems keep the mark.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
        (_PROCESS / "clear_refs").write_text("5")


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that the device's tensors took if it is a GPU, else that the process held.

    On Linux files that are mapped into memory, such as a cache of images, do not count.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, KeyError):
        lines = (_PROCESS / "status").read_text().splitlines()
        held = dict(line.split(":", 1) for line in lines)
        return 1024 * (int(held["VmHWM"].split()[0]) - int(held["RssFile"].split()[0]))
    import resource  # POSIX only

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
