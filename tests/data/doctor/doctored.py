"""Distinct small images, and trees of them."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, side: int = 48) -> Image.Image:
    """An image of smooth random colours."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def plant(root: Path, *, domains=("a", "b", "c"), classes=("cat", "cow"), each=25) -> Path:
    """A tree of distinct images without faults."""
    seed = 0
    for domain in domains:
        for label in classes:
            folder = root / domain / label
            folder.mkdir(parents=True)
            for number in range(each):
                picture(seed).save(folder / f"{number}.png")
                seed += 1
    return root
