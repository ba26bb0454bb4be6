"""Write folders of distinct random images."""

from pathlib import Path

import numpy as np
from PIL import Image


def random_image(seed: int, side: int = 48) -> Image.Image:
    """An image of smooth random colours."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def write_images(root: Path, *, domains=("a", "b", "c"), classes=("cat", "cow"), each=25) -> Path:
    """Write distinct images without faults, ``each`` per domain and class."""
    seed = 0
    for domain in domains:
        for label in classes:
            folder = root / domain / label
            folder.mkdir(parents=True)
            for number in range(each):
                random_image(seed).save(folder / f"{number}.png")
                seed += 1
    return root
