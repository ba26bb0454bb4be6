"""One run after another in one process, with word of every step."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from riskmatch.config import RunConfig


class Stepped(NamedTuple):
    """A run reached a step, so many seconds after the last word of it."""

    step: int
    seconds: float


class Ended(NamedTuple):
    """A run is over: done, unless there is an error or it was interrupted."""

    error: str | None = None
    interrupted: bool = False


def train_run(
    run: RunConfig, out: Path, data_dir: Path | None, tell: Callable[[Stepped], None]
) -> Ended:
    """Train a run, or go on with it; ``tell`` may raise ``KeyboardInterrupt`` to stop it."""
    from riskmatch.engine import Progress, train
    from riskmatch.engine.allocator import keep_freed_memory

    keep_freed_memory()
    heard = time.monotonic()

    def on_step(progress: Progress) -> None:
        nonlocal heard
        before, heard = heard, time.monotonic()
        tell(Stepped(progress.step, heard - before))

    try:
        train(run, out, data_dir=data_dir, resume=True, on_step=on_step)
    except KeyboardInterrupt:
        return Ended(interrupted=True)
    except Exception as error:
        return Ended(f"{type(error).__name__}: {error}")
    return Ended()


def serve(pipe: Connection, out: Path, data_dir: Path | None, cores: int) -> None:
    """Train what arrives until None does; anything that arrives during a run interrupts it.

    If the other end of the pipe is gone, so is the reason to go on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between runs; within one, the engine holds it

    def tell(said: Stepped) -> None:
        try:
            pipe.send(said)
            if not pipe.poll():
                return
        except OSError:
            pass
        raise KeyboardInterrupt

    with threads(cores):
        try:
            while (run := pipe.recv()) is not None:
                pipe.send(train_run(run, out, data_dir, tell))
        except (EOFError, OSError):
            return


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch use so many threads, for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
