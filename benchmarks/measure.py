"""Time and peak memory on a noisy machine: interleaved, best of several."""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from riskmatch.device import peak_memory, reset_peak_memory

CPU = torch.device("cpu")
RESULTS = Path(__file__).resolve().parent.parent / "results" / "bench"

Action = Callable[[], object]

LONG, FEW = 1.0, 3
"""Seconds of a call from which an action is called in so many rounds alone: noise is small beside
it."""


def seconds(actions: dict[str, Action], rounds: int = 7, turn: float = 0.05) -> dict[str, float]:
    """The best time of one call of each action.

    The actions take turns, so that noise meets all alike. A turn repeats its action for at least
    ``turn`` seconds, so that what the others did to caches and memory wears off.
    """
    best = dict.fromkeys(actions, float("inf"))
    for action in actions.values():
        action()
    for number in range(rounds):
        for name, action in actions.items():
            if number >= FEW and best[name] > LONG:
                continue
            end = time.perf_counter() + turn
            start = 0.0
            while start < end:
                start = time.perf_counter()
                action()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def medians(actions: dict[str, Action], rounds: int) -> dict[str, float]:
    """The median time of each action over rounds in which they take turns."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def process(words: Sequence[str], **environment: str) -> tuple[int, float, float, int]:
    """Run a command without its standard output, with more variables in its environment.

    Returns:
        Exit code, seconds, processor seconds, and the peak memory in KiB.
    """
    start = time.perf_counter()
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=os.environ | environment)
    _, status, used = os.wait4(running.pid, 0)
    seconds = time.perf_counter() - start
    running.returncode = os.waitstatus_to_exitcode(status)
    return running.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss


def peak_megabytes(action: Action) -> float | None:
    """Rise of the process's memory above its level before ``action``; None except on Linux."""
    if sys.platform != "linux":
        return None
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    action()
    return (peak_memory(CPU) - before) / 2**20


def peak_tensor_megabytes(action: Action) -> float:
    """Most memory that tensors made during ``action`` hold at a time, as a GPU would count it."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        action()
    results = profile.profiler.kineto_results  # type: ignore[union-attr]
    events = [event for event in results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes)) / 2**20


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def measured(name: str) -> dict[str, Any]:
    """The record that ``save`` wrote, or an empty one, with what was ``measured`` by version."""
    file = RESULTS / f"{name}.json"
    record = json.loads(file.read_text()) if file.exists() else {"measured": {}}
    return record | {"machine": machine()}


def save(name: str, record: dict[str, object], table: str) -> None:
    """Write ``results/bench/NAME.json`` and ``NAME.md``, and show the table."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / f"{name}.md").write_text(table)
    print(f"\n{table}\nwritten to {RESULTS / name}.json")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * (width - 1) + ":" for width in widths], *rows]
    return "".join(
        "| " + " | ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) + " |\n"
        for line in lines
    )
