"""A small folder of images."""

from pathlib import Path

import numpy as np
from PIL import Image

DOMAINS, CLASSES = ("ink", "oil", "photo"), ("cat", "dog")


def draw_pets(root: Path, each: int = 2) -> Path:
    """``root/domain/class/number.png``, each image its own noise."""
    rng = np.random.default_rng(0)
    for domain in DOMAINS:
        for label in CLASSES:
            (root / domain / label).mkdir(parents=True)
            for number in range(each):
                pixels = rng.integers(0, 256, (36, 36, 3), np.uint8)
                Image.fromarray(pixels).save(root / domain / label / f"{number}.png")
    return root
