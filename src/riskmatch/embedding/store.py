"""Tensors on the disk, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from riskmatch.durable import write_whole

NAME = "features"


def made_once(path: Path, make: Callable[[], Tensor], waiting: Callable[[], None]) -> Tensor:
    """The tensor in the file ``path``; ``make`` is called where there is none.

    Of processes that want it at the same time one makes it, the others wait. The file appears
    whole or not at all.

    Args:
        path: of the file, safetensors.
        make: gives the tensor.
        waiting: called before waiting for another process.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock"), waiting):
            if not path.exists():  # unless another process has made it meanwhile
                write_whole(path, to_bytes({NAME: make().contiguous()}))
    return load_file(path)[NAME]


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the only process to hold ``path``; the system lets go at our death."""
    import fcntl  # POSIX only

    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
