"""Turn an index of image files into domains."""

from __future__ import annotations

from pathlib import Path

import torch

from riskmatch.data import OnProgress
from riskmatch.data.domain import Domain, DomainSet, StoredImages
from riskmatch.data.images.augment import RandomView, WholeView
from riskmatch.data.images.cache import cached_file, map_pixels
from riskmatch.data.images.index import ImageIndex


def image_domains(
    index: ImageIndex,
    *,
    image_size: int = 224,
    augment: bool = True,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The domains of an index; images are read from the cache on access.

    Evaluation uses the bytes of the cache, (n, 3, side, side), which every backbone resizes and
    normalises itself; training uses values in [0, 1], (n, 3, image_size, image_size).

    Args:
        index: the images.
        image_size: side of the images that training uses, in pixels.
        augment: whether to augment as DomainBed
            (:class:`~riskmatch.data.images.augment.RandomView`); otherwise images are only resized.
        cache: folder of decoded images; see :func:`~riskmatch.data.images.cache.cached_file`.
        on_progress: called for every image that is decoded.

    Raises:
        ValueError: an option has an invalid value, or a file is not an image.
    """
    # Values from the command line or a file may have any type.
    if isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1:
        raise ValueError(f"image_size must be a positive integer, got {image_size!r}.")
    if not isinstance(augment, bool):
        raise ValueError(f"augment must be true or false, got {augment!r}.")
    file = cached_file(index.root, index.paths, image_size, cache, on_progress)
    row_of = {path: row for row, path in enumerate(sorted(index.paths))}
    rows = torch.tensor([row_of[path] for path in index.paths])
    labels, numbers = torch.tensor(index.labels), torch.tensor(index.domains)
    images = StoredImages(map_pixels(file, len(index)), content=file.stem)
    domains = []
    for number, name in enumerate(index.domain_names):
        selected = numbers == number
        domains.append(Domain(name, images.take(rows[selected]), labels[selected]))
    return DomainSet(
        index.name,
        tuple(domains),
        classes=len(index.class_names),
        class_names=index.class_names,
        augment=RandomView(image_size) if augment else WholeView(image_size),
    )
