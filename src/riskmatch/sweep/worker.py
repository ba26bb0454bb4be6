"""One run after another in one process, with word of how far each is."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lock import BusyError, lock

if TYPE_CHECKING:
    from riskmatch.data.domain import DomainSet
    from riskmatch.data.progress import OnProgress

SILENCE = 0.1
"""Seconds from one word to the next, at least: short steps are not to wait for it."""


class Stepped(NamedTuple):
    """A run reached a step, so many seconds after the last word of it."""

    step: int
    seconds: float


class Ended(NamedTuple):
    """A run is over here."""

    how: Literal["done", "failed", "interrupted", "busy"]
    """Busy is a run that another process trains."""
    error: str | None = None
    """Why it failed."""


@dataclass
class Bench:
    """Where runs are trained: the folder of their records, the device, the data set at hand."""

    out: Path
    data_dir: Path | None = None
    """A folder in which to look for the files of data sets first."""
    device: str = "cpu"
    predictions: bool = False
    """Whether to keep what the models say of every sample."""
    _at_hand: tuple[str, DomainSet] | None = field(default=None, init=False, repr=False)

    def domains(self, run: RunConfig, on_progress: OnProgress | None = None) -> DomainSet:
        """The data set of a run; it is loaded, and embedded, where the last run had another."""
        from riskmatch.engine.assemble import domains_of

        values = run.to_json()
        key = json.dumps([values[name] for name in ("data", "data_options", "model_options")])
        key += run.model
        if self._at_hand is None or self._at_hand[0] != key:
            self._at_hand = None  # or two were in memory for a while
            self._at_hand = key, domains_of(run, self.data_dir, self.device, on_progress)
        return self._at_hand[1]

    def train(self, run: RunConfig, tell: Callable[[Stepped], None]) -> Ended:
        """Train a run, or go on with it; ``tell`` may raise ``KeyboardInterrupt`` to stop it."""
        from riskmatch.engine import Progress, train
        from riskmatch.engine.allocator import keep_freed_memory

        keep_freed_memory()
        heard = time.monotonic()

        def on_step(progress: Progress) -> None:
            nonlocal heard
            now = time.monotonic()
            if now - heard > SILENCE or progress.step == progress.steps:
                seconds, heard = now - heard, now
                tell(Stepped(progress.step, seconds))

        try:
            train(
                run,
                self.out,
                device=self.device,
                data_dir=self.data_dir,
                domains=self.domains(run),
                resume=True,
                predictions=self.predictions,
                on_step=on_step,
            )
        except KeyboardInterrupt:
            return Ended("interrupted")
        except BusyError:
            return Ended("busy")
        except Exception as error:
            return put_failure_on_file(self.out, run, f"{type(error).__name__}: {error}")
        return Ended("done")


def put_failure_on_file(out: Path, run: RunConfig, why: str) -> Ended:
    """What becomes of a run that failed here: it fails, unless another process has it or ended it.

    A run that ended before has its own word on file, which stays.
    """
    folder = out / run.id
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder):
            found = records.find(folder)
            if found is not None and found.status != "unfinished":
                return Ended(found.status, found.error)
            if found is None:
                records.start(folder, run)
            else:
                records.rewind(folder, sys.maxsize)  # or the end would follow on half a line
            records.end(folder, "failed", why)
    except BusyError:
        return Ended("busy")
    except (OSError, ValueError):  # a full disk or a damaged file: it is told, if not written
        pass
    return Ended("failed", why)


def serve(pipe: Connection, bench: Bench, cores: int) -> None:
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
                pipe.send(bench.train(run, tell))
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
