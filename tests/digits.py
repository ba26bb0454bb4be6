"""Small random files in the format of MNIST, and the real data set if it is available."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
import torch

from riskmatch.data import mnist


def idx(values) -> bytes:
    """IDX file of a tensor of bytes."""
    head = bytes([0, 0, 8, values.dim()])
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return head + sizes + values.to(torch.uint8).numpy().tobytes()


def random_mnist(train=60, test=20) -> dict[str, bytes]:
    """The four files of MNIST, compressed, with few random images."""
    generator = torch.Generator().manual_seed(0)
    contents = []
    for n in (train, test):
        images = torch.randint(256, (n, 28, 28), generator=generator)
        contents += [idx(images), idx(torch.arange(n) % 10)]
    return {
        f"{name}.gz": gzip.compress(content)
        for name, content in zip(mnist.FILES, contents, strict=True)
    }


def accept(monkeypatch, files) -> None:
    """Register the checksums of ``files`` as those of MNIST, and hide the real data set."""
    md5s = {
        name.removesuffix(".gz"): hashlib.md5(gzip.decompress(content)).hexdigest()
        for name, content in files.items()
    }
    monkeypatch.setattr(mnist, "FILES", md5s)
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    mnist._load.cache_clear()


def place(files, folder: Path) -> Path:
    """Write the files to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def real() -> mnist.Mnist:
    """The real MNIST, from the folder RISKMATCH_DATA."""
    if "RISKMATCH_DATA" not in os.environ or mnist.find_mnist() is None:
        pytest.skip("needs the set mnist in the folder RISKMATCH_DATA")
    return mnist.load_mnist()
