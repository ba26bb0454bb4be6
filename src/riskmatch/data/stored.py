"""Images that stay on the disk until somebody looks at them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor


class Stored:
    """Images in a file that is mapped into memory, with the manners of a tensor (n, c, h, w).

    Rows are read when they are asked for, and the system may drop them again: the data set can be
    larger than memory. What comes out is a tensor of its own in the memory format "channels last",
    the order in which the pixels lie in the file.

    Args:
        pixels: (N, h, w, c), mapped from a file.
        rows: (n) the rows of ``pixels`` in this view; None is all of them.
        device: where the tensors that come out lie.
        content: stands for what the file holds, the same for the same; empty where it is unknown.

    Example:
        >>> images = Stored(torch.arange(24, dtype=torch.uint8).view(4, 2, 1, 3))
        >>> images.shape, images[torch.tensor([2, 0])][:, :, 0, 0].tolist()
        ((4, 3, 2, 1), [[12, 13, 14], [0, 1, 2]])
        >>> images.take(torch.tensor([3, 1])).take(torch.tensor([1]))[:][:, :, 0, 0].tolist()
        [[6, 7, 8]]
    """

    def __init__(
        self,
        pixels: Tensor,
        rows: Tensor | None = None,
        device: torch.device | str = "cpu",
        content: str = "",
    ) -> None:
        self._pixels = pixels
        self._rows = torch.arange(len(pixels)) if rows is None else rows
        self.device = torch.device(device)
        self._content = content

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, c, h, w)."""
        _, height, width, channels = self._pixels.shape
        return len(self), channels, height, width

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensors that come out."""
        return self._pixels.dtype

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        # NumPy copies whole images; torch's indexing goes value by value, some twenty times slower.
        chosen = torch.from_numpy(self._pixels.numpy()[self._chosen(rows).numpy()])
        return chosen.permute(0, 3, 1, 2).to(self.device)

    def take(self, rows: Tensor) -> Stored:
        """The images at ``rows``; none is read."""
        return Stored(self._pixels, self._chosen(rows), self.device, self._content)

    def split(self, size: int) -> Iterator[Tensor]:
        """All images in order, ``size`` at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def to(self, device: torch.device | str) -> Stored:
        """The same images, to come out on another device; none is read."""
        return Stored(self._pixels, self._rows, device, self._content)

    def fingerprint(self) -> str | None:
        """A hash that stands for these images; None where the file's content is unknown."""
        if not self._content:
            return None
        return hashlib.sha256(self._content.encode() + self._rows.numpy().tobytes()).hexdigest()

    def _chosen(self, rows: Tensor | slice) -> Tensor:
        return self._rows[rows.cpu() if isinstance(rows, Tensor) else rows]
