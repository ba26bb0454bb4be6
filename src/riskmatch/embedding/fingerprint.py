"""What features depend on, as short text."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from riskmatch.data.stored import Stored

CHUNK = 256
"""Images read at a time."""


def content_of(x: Tensor | Stored) -> str:
    """A hash of all inputs of a domain, in order; images need not be read where it is known."""
    if isinstance(x, Stored) and (known := x.fingerprint()):
        return known
    digest = hashlib.sha256(f"{tuple(x.shape)} {x.dtype}".encode())
    for part in x.split(CHUNK):
        _add(digest, part)
    return digest.hexdigest()


def weights_of(model: nn.Module) -> str:
    """The hash of a network's weights and buffers, with their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        _add(digest, value)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, value: Tensor) -> None:
    flat = value.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data)
