"""Find, verify, read and download the four files of MNIST."""

from __future__ import annotations

import gzip
import hashlib
import io
import warnings
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from riskmatch.data import OnProgress
from riskmatch.data.fetch import candidate_folders, fetch, from_mirrors, not_here
from riskmatch.files import free_name, user_folder

FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""The md5 of each file, decompressed."""
MAX_BYTES = 48_000_000
"""Most bytes of a file, packed or not."""
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)


@dataclass(frozen=True, eq=False)
class Mnist:
    """Handwritten digits."""

    train_images: Tensor
    """(60000, 28, 28) uint8."""
    train_digits: Tensor
    """(60000,) uint8."""
    test_images: Tensor
    """(10000, 28, 28) uint8."""
    test_digits: Tensor
    """(10000,) uint8."""


def load_mnist(data_dir: Path | None = None) -> Mnist:
    """MNIST from the files on this machine.

    Args:
        data_dir: folder to search first, for the files or a folder ``mnist`` with them; then
            :func:`~riskmatch.data.fetch.candidate_folders` are searched.

    Raises:
        FileNotFoundError: a file is missing; the message lists the folders searched.
        ValueError: a file is damaged.
    """
    folder = find_mnist(data_dir)
    if folder is None:
        files = ", ".join(f"{name}.gz" for name in FILES)
        raise not_here("MNIST", "mnist", files, candidate_folders("mnist", data_dir))
    return _load(folder.resolve())


def find_mnist(data_dir: Path | None = None) -> Path | None:
    """The first candidate folder with all four files; None where there is none."""
    for folder in candidate_folders("mnist", data_dir):
        if all(_file(folder, name) for name in FILES):
            return folder
    return None


def get_mnist(
    folder: Path | None = None,
    *,
    mirrors: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> Path:
    """Download the missing files of MNIST; returns their folder.

    A file of the same name with other content, damaged or of another data set, is renamed.

    Args:
        folder: target; by default a folder in the cache.
        mirrors: base URLs of the four files, in place of :data:`MIRRORS`.
        on_progress: called with the name of a file and the number of bytes.

    Raises:
        FetchError: a file could not be downloaded; the next call continues from the bytes received.
    """
    folder = folder or user_folder("cache") / "mnist"
    for name, md5 in FILES.items():
        check, path = partial(read_verified, md5=md5), _file(folder, name)
        with suppress(ValueError):  # another one, or damaged
            if path:
                check(path)
                continue
        packed = f"{name}.gz"
        urls = from_mirrors(mirrors or MIRRORS, packed)
        if path:  # a plain one would be read first
            renamed = path.rename(free_name(path))
            warnings.warn(f"{path} is not that of MNIST, now {renamed.name}.", stacklevel=2)
        fetch(urls, packed, folder, check, on_progress, limit=MAX_BYTES)
    return folder


def read_verified(path: Path, md5: str) -> bytes:
    """Content of a file, decompressed; ``ValueError`` unless it has this ``md5``."""
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"damaged: it cannot be decompressed, {error}") from error
    if len(content) > MAX_BYTES:
        raise ValueError(f"damaged: it has more than {MAX_BYTES:,} bytes")
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != md5:
        raise ValueError(f"damaged: the md5 of its content is {actual}, not {md5}")
    return content


def read_idx(content: bytes) -> Tensor:
    """The bytes of an intact IDX file as a tensor.

    Example:
        >>> read_idx(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
        tensor([[7, 8, 9]], dtype=torch.uint8)
    """
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], ">u4").astype(int)
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


@lru_cache(maxsize=1)
def _load(folder: Path) -> Mnist:
    tensors = list[Tensor]()
    for name, md5 in FILES.items():
        path = _file(folder, name)
        assert path is not None
        try:
            tensors.append(read_idx(read_verified(path, md5)))
        except ValueError as error:
            raise ValueError(
                f"{path}: {error}. Remove it, then download it again: riskmatch data get mnist"
            ) from error
    return Mnist(*tensors)


def _file(folder: Path, name: str) -> Path | None:
    """The file, plain or compressed."""
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)
