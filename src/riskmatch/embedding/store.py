"""Tensors on the disk, made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from riskmatch.files import alone, write_whole

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
        with alone(path.with_suffix(".lock"), waiting):
            if not path.exists():  # unless another process has made it meanwhile
                write_whole(path, to_bytes({NAME: make().contiguous()}))
    return load_file(path)[NAME]
