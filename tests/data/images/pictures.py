"""Small image data sets on disk."""

from pathlib import Path

import numpy as np
from PIL import Image

from riskmatch.data.images.index import Entry, ImageIndex

DOMAINS, CLASSES = ("ink", "oil", "photo"), ("cat", "dog")


def picture(path: Path, side: int | tuple[int, int], seed: int) -> np.ndarray:
    """Write an image of random bytes, and return them."""
    width, height = (side, side) if isinstance(side, int) else side
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def pictures(root: Path, each: int = 5, side: int = 36) -> ImageIndex:
    """An index of ``each`` images per domain and class; the domains grow, ink has no dog."""
    entries = []
    for d, domain in enumerate(DOMAINS):
        for label in CLASSES:
            for number in range(each + d if (domain, label) != ("ink", "dog") else 0):
                entries.append(Entry(f"{domain}/{label}/{number}.png", label, domain))
                picture(root / entries[-1].path, side, seed=len(entries))
    return ImageIndex.of("pictures", root, entries)
