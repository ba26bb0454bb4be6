"""Domains of images, from an index of files."""

from __future__ import annotations

from pathlib import Path

import torch

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.images.augment import RandomView, WholeView
from riskmatch.data.images.cache import cached_file, mapped
from riskmatch.data.images.index import ImageIndex
from riskmatch.data.progress import OnProgress
from riskmatch.data.stored import Stored


def image_domains(
    index: ImageIndex,
    *,
    image_size: int = 224,
    augment: bool = True,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The domains of an index; images stay on the disk until they are asked for.

    Evaluation sees the bytes of the cache, (n, 3, side, side), which every backbone resizes and
    normalises itself; training sees numbers in [0, 1], (n, 3, image_size, image_size).

    Args:
        index: which images there are.
        image_size: the side of the images that training sees.
        augment: as DomainBed does (:class:`~riskmatch.data.images.augment.RandomView`); without,
            training sees the whole images.
        cache: the folder of decoded images; see
            :func:`~riskmatch.data.images.cache.cached_file`.
        on_progress: told of every image that is decoded.

    Raises:
        ValueError: an option has a value that it cannot take, or a file is no image.
    """
    # Options come from the command line, too, as whatever was typed there.
    if isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1:
        raise ValueError(f"Option image_size: {image_size!r} is not a whole number above 0.")
    if not isinstance(augment, bool):
        raise ValueError(f"Option augment: {augment!r} is not true or false.")
    file = cached_file(index.root, index.paths, image_size, cache, on_progress)
    row_of = {path: row for row, path in enumerate(sorted(index.paths))}
    rows = torch.tensor([row_of[path] for path in index.paths])
    labels, places = torch.tensor(index.labels), torch.tensor(index.domains)
    images = Stored(mapped(file, len(index)), content=file.stem)
    domains = []
    for place, name in enumerate(index.domain_names):
        mine = places == place
        domains.append(Domain(name, images.take(rows[mine]), labels[mine]))
    return DomainSet(
        index.name,
        tuple(domains),
        classes=len(index.class_names),
        class_names=index.class_names,
        augment=RandomView(image_size) if augment else WholeView(image_size),
    )
