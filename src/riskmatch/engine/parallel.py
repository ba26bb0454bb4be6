"""Train one run on several processes, as torchrun starts them.

Each process computes the risks of its share of a batch. The risks of all are gathered, so that
every process has the objective of the whole batch and the weight ∂L/∂r of each of its samples;
DistributedDataParallel averages the gradients of the weighted risks.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from riskmatch.data.domain import Batch
from riskmatch.engine.step import Stepper
from riskmatch.runs.lines import DataIdentity

STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals that end a run after a checkpoint; clusters send the last two."""
HEARTBEAT = 1.0
"""Seconds between two signs of life of a process."""
SILENCE = 5.0
"""Seconds without a sign of life after which a process counts as stopped."""

Value = TypeVar("Value")


class LostProcessError(RuntimeError):
    """Other processes of a run have stopped.

    Args:
        causes: error of each of them by rank; empty for one that left none.
    """

    def __init__(self, causes: Mapping[int, str]) -> None:
        unknown = "without an error: it was killed, ran out of memory, or hangs"
        parts = [
            f"Rank {rank} stopped {f'with {error}' if error else unknown}".rstrip(".") + "."
            for rank, error in causes.items()
        ]
        super().__init__(" ".join(parts))
        self.causes = dict(causes)


@dataclass(frozen=True)
class Processes:
    """The processes that train a run together; by default this one alone.

    Every process calls the same methods in the same order.

    Example:
        >>> alone = Processes()
        >>> alone.main, alone.any(False), alone.gather("a")
        (True, False, ['a'])
    """

    rank: int = 0
    """Number of this process, from 0."""
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of this process."""
    control: Any = None
    """Process group for values on the CPU."""

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def from_main(self, function: Callable[[], Value]) -> Value:
        """Call ``function`` on the main process alone; return its result on all."""
        values = [function() if self.main else None]
        if self.count > 1:
            dist.broadcast_object_list(values, src=0, group=self.control)
        return values[0]  # type: ignore[return-value]

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, by rank."""
        values = [value] * self.count
        if self.count > 1:
            dist.all_gather_object(values, value, group=self.control)
        return values

    def any(self, flag: bool) -> bool:
        """Whether the flag of any process is set."""
        if self.count == 1:
            return flag
        flags = torch.tensor([int(flag)])
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=self.control)
        return bool(flags.item())

    def check_same(self, run: str, data: DataIdentity) -> None:
        """Raise ``ValueError`` unless the id of the run and the data are the same on all."""
        parts = self.gather((run, data))
        for rank, (other, own_data) in enumerate(parts):
            changes = parts[0][1].changes(own_data)
            if other != parts[0][0]:
                changes = f"it trains the run {other} instead of {parts[0][0]}"
            if changes:
                raise ValueError(
                    f"Rank {rank} differs from rank 0: {changes}. Give all the same options."
                )

    @contextmanager
    def gradients_averaged(self, stepper: Stepper) -> Iterator[None]:
        """Let DistributedDataParallel average the gradients of the steps, if there are several."""
        if self.count > 1:
            stepper.distributed = DistributedDataParallel(
                _Risks(stepper), find_unused_parameters=True
            )
        try:
            yield
        finally:
            stepper.distributed = None

    @contextmanager
    def lost_processes_named(self) -> Iterator[None]:
        """Turn errors of communication into :class:`LostProcessError` if a process has stopped.

        The others fail to communicate with it, or are interrupted by torchrun.
        """
        try:
            yield
        except (RuntimeError, KeyboardInterrupt) as error:
            known = isinstance(error, RuntimeError) and type(error) is not RuntimeError
            if self.count == 1 or (known and not isinstance(error, dist.DistError)):
                raise
            with deferred_interrupts():
                causes = self._lost()
            if isinstance(error, KeyboardInterrupt):
                causes = {rank: cause for rank, cause in causes.items() if not cause}
            if causes:
                raise LostProcessError(causes) from error
            raise

    def report(self, error: BaseException) -> None:
        """Tell the other processes why this one stops."""
        is_cause = not isinstance(error, LostProcessError)
        text = f"{type(error).__name__}: {error}" if is_cause else ""
        with suppress(RuntimeError):  # the process that holds the store has stopped
            _store().set(_error(self.rank), json.dumps(text))

    def _lost(self) -> dict[int, str]:
        """Processes that reported an error or show no sign of life, with their errors."""
        store, causes = _store(), dict[int, str]()
        silent = {rank for rank in range(self.count) if rank != self.rank}
        end = time.monotonic() + SILENCE
        try:
            beats = {rank: store.add(_beat(rank), 0) for rank in silent}
            while silent and time.monotonic() < end:
                for rank in sorted(silent):
                    if store.check([_error(rank)]):
                        if error := json.loads(store.get(_error(rank))):
                            causes[rank] = error
                    elif store.add(_beat(rank), 0) == beats[rank]:
                        continue
                    silent.discard(rank)
                time.sleep(HEARTBEAT / 10)
        except RuntimeError:  # without torchrun, the main process holds the store
            return {0: ""}
        return causes | dict.fromkeys(sorted(silent), "")


ALONE = Processes()


class _Risks(nn.Module):
    """Batch → risks (n,), so that a step is one forward pass of DistributedDataParallel."""

    def __init__(self, stepper: Stepper) -> None:
        super().__init__()
        self.model = stepper.model
        self._eval = stepper.evaluate
        # find_unused_parameters keeps the order in which gradients are added from the first step
        # on, so that a resumed run has the same bits. It warns if no parameter is unused.
        self.unused = nn.Parameter(next(self.model.parameters()).detach().new_zeros(1))

    def forward(self, batch: Batch) -> Tensor:
        return self._eval(batch).risks


@contextmanager
def joined_processes(device: str = "cpu") -> Iterator[Processes]:
    """Join the processes that torchrun started, or those of the default process group.

    Without either, this process is alone. Processes on the CPU communicate by gloo, those on GPUs
    by nccl, each on the GPU of its local rank.

    Args:
        device: ``cpu``, or ``cuda`` for the GPU of the local rank.

    Raises:
        ValueError: there are more processes than GPUs on this machine.
        LostProcessError: another process has stopped.
    """
    launched = "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1
    joined = dist.is_available() and dist.is_initialized()
    if not launched and not (joined and dist.get_world_size() > 1):
        yield Processes(device=torch.device(device))
        return
    local = _local_device(device)
    if not joined:  # once: a group cannot be made again after it was destroyed
        dist.init_process_group("nccl" if local.type == "cuda" else "gloo")
        atexit.register(_leave)
    control = dist.new_group(backend="gloo") if local.type == "cuda" else dist.group.WORLD
    processes = Processes(dist.get_rank(), dist.get_world_size(), local, control)
    stop = threading.Event()
    heart = threading.Thread(target=_show_life, args=(processes.rank, stop), daemon=True)
    heart.start()
    try:
        with processes.lost_processes_named(), warnings.catch_warnings():
            # Methods see the risks of all processes.
            warnings.filterwarnings("ignore", "RiskMatching runs in a process group")
            yield processes
            processes.any(False)  # nobody leaves while another still communicates
    except BaseException as error:
        processes.report(error)
        raise
    finally:
        stop.set()
        heart.join()


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Defer the first Ctrl-C, SIGTERM or SIGHUP; the yielded function tells whether there was one.

    A second signal acts at once. Outside the main thread, which alone receives signals, nothing
    changes.
    """
    interrupted = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: interrupted
        return
    before = {
        number: handler
        for number in STOP_SIGNALS
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN or number == signal.SIGINT
    }  # nohup ignores SIGHUP

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        restore()

    for number in before:
        signal.signal(number, defer)
    try:
        yield lambda: interrupted
    finally:
        restore()


def _leave() -> None:
    dist.destroy_process_group()
    # DistributedDataParallel keeps the threads of the group alive. One that still releases a tensor
    # while the interpreter shuts down aborts the process.
    time.sleep(0.2)


def _local_device(device: str) -> torch.device:
    local = torch.device(device)
    if local.type != "cuda" or "LOCAL_RANK" not in os.environ:
        return local
    rank, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local.index not in (None, rank):
        raise ValueError(f"Each process has a GPU of its own: use the device cuda, not {device}.")
    if rank >= count:
        raise ValueError(
            f"Process {rank} has no GPU, as there are {count}. Start fewer, or use the device cpu."
        )
    local = torch.device("cuda", rank)
    torch.cuda.set_device(local)
    return local


def _show_life(rank: int, stop: threading.Event) -> None:
    store = _store()
    with suppress(RuntimeError):  # the process that holds the store has stopped
        store.delete_key(_error(rank))  # of an earlier run of these processes
        store.add(_beat(rank), 1)
        while not stop.wait(HEARTBEAT):
            store.add(_beat(rank), 1)


def _store() -> Any:
    """The key-value store of the default process group."""
    from torch.distributed.distributed_c10d import _get_default_store  # not in every build of torch

    return _get_default_store()


def _beat(rank: int) -> str:
    return f"riskmatch/beat/{rank}"


def _error(rank: int) -> str:
    return f"riskmatch/error/{rank}"
