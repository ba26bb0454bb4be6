"""MNIST: its four files, found, verified, read or fetched."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from riskmatch.data.fetch import TIMEOUT, fetch
from riskmatch.data.places import VARIABLE, cache_folder, places
from riskmatch.data.progress import OnProgress

FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""The md5 of each file, unpacked."""
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)


@dataclass(frozen=True, eq=False)
class Mnist:
    """Handwritten digits."""

    train_images: Tensor
    """(60000, 28, 28), bytes."""
    train_digits: Tensor
    """(60000,)."""
    test_images: Tensor
    """(10000, 28, 28), bytes."""
    test_digits: Tensor
    """(10000,)."""


def load_mnist(root: Path | None = None) -> Mnist:
    """MNIST from the files on this machine; :func:`~riskmatch.data.places.places` are searched.

    Args:
        root: a folder to look in first; the files or a folder ``mnist`` with them are in it.

    Raises:
        FileNotFoundError: there are no files; the message says where they could be.
        ValueError: a file is damaged.
    """
    folder = find_mnist(root)
    if folder is None:
        looked = ", ".join(map(str, places("mnist", root)))
        files = ", ".join(f"{name}.gz" for name in FILES)
        raise FileNotFoundError(
            f"MNIST is not on this machine; looked in {looked}. Fetch it with riskmatch data get "
            f"mnist, or place {files} in one of these folders, or in a folder mnist of the one "
            f"that {VARIABLE} names."
        )
    return _load(folder.resolve())


def find_mnist(root: Path | None = None) -> Path | None:
    """The first of the :func:`~riskmatch.data.places.places` that holds the four files."""
    for folder in places("mnist", root):
        if all(_file(folder, name) for name in FILES):
            return folder
    return None


def get_mnist(
    folder: Path | None = None,
    *,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Fetch what is missing or damaged of MNIST; returns the folder that then holds it whole.

    Args:
        folder: where to; the cache, where nothing is said.
        mirrors: URLs of folders with the four files, tried in this order.
        timeout: seconds without a byte before a mirror is given up.
        on_progress: told of every piece.

    Raises:
        FetchError: a file could not be had; what has arrived is kept, and the next call goes on.
    """
    folder = folder or cache_folder() / "mnist"
    for name in FILES:
        if not _whole(folder, name):
            check = partial(check_file, name=name)
            packed = f"{name}.gz"
            fetch(packed, folder, mirrors, check, timeout=timeout, on_progress=on_progress)
            (folder / name).unlink(missing_ok=True)  # a damaged one, which would be read first
    return folder


def check_file(path: Path, name: str) -> None:
    """Raise ``ValueError`` unless ``path`` holds the file ``name`` of MNIST, packed or not."""
    unpacked(path, FILES[name])


def unpacked(path: Path, md5: str) -> bytes:
    """The content of a file, packed with gzip or not; ``ValueError`` unless its md5 is ``md5``."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"damaged: it cannot be unpacked, {error}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise ValueError(f"damaged: the md5 of its content is {found}, not {md5}")
    return content


def read_idx(content: bytes) -> Tensor:
    """The bytes of an IDX file as a tensor.

    Example:
        >>> read_idx(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
        tensor([[7, 8, 9]], dtype=torch.uint8)
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError("not an IDX file: it does not begin with two zero bytes")
    if content[2] != 8:
        raise ValueError(f"an IDX file of type {content[2]:#04x}; only bytes, 0x08, are read here")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"the IDX file ends in its head, after {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if len(content) - start != math.prod(shape):
        raise ValueError(f"an IDX file of shape {shape} with {len(content) - start} values")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


@lru_cache(maxsize=1)
def _load(folder: Path) -> Mnist:
    return Mnist(*(_read(folder, name) for name in FILES))


def _read(folder: Path, name: str) -> Tensor:
    path = _file(folder, name)
    assert path is not None
    try:
        return read_idx(unpacked(path, FILES[name]))
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}. Remove it, then fetch it again: riskmatch data get mnist"
        ) from error


def _file(folder: Path, name: str) -> Path | None:
    """The file, unpacked or packed."""
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)


def _whole(folder: Path, name: str) -> bool:
    path = _file(folder, name)
    if path is None:
        return False
    try:
        check_file(path, name)
    except ValueError:
        return False
    return True
