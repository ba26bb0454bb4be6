"""Throughput of image batches, augmented as in DomainBed, at 224 pixels: `make bench`.

Compares riskmatch's sampler on a warm cache with DomainBed's loader: Pillow decodes every image
and torchvision augments it, in two worker processes of a DataLoader. Both use the same files, the
same batch size and the same two cores, in alternating rounds. Neither normalises: in riskmatch the
model does. The images are synthetic (smooth random colours, 227 × 227, JPEG), or real:
`python benchmarks/images.py FOLDER`, with a tree domain/class/image such as PACS.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import measure
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, RandomSampler

from riskmatch.data import Sampler
from riskmatch.data.images.cache import image_domains
from riskmatch.data.images.index import ImageIndex, index_folder
from riskmatch.device import keep_freed_memory
from riskmatch.models.trunk import import_torchvision

BATCH, WORKERS, AHEAD = 32, 2, 2
TURN, ROUNDS = 20, 6
IMAGES, SIDE = 1_000, 227


def write_images(root: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        coarse = Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))
        folder = root / "domain" / f"class {number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg")


def pooled(index: ImageIndex) -> ImageIndex:
    """The same images as one domain: a sampler draws a batch from each domain."""
    return replace(index, domain_names=("all",), domains=(0,) * len(index))


class Decoded(Dataset[tuple[torch.Tensor, int]]):
    """Images as DomainBed reads them."""

    def __init__(self, index: ImageIndex) -> None:
        from torchvision import transforms

        self.index = index
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224, scale=(0.7, 1.0)),
                transforms.RandomHorizontalFlip(),
                transforms.ColorJitter(0.3, 0.3, 0.3, 0.3),
                transforms.RandomGrayscale(),
                transforms.ToTensor(),
            ]
        )

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.index.file(row)) as image:
            return self.transform(image.convert("RGB")), self.index.labels[row]


class Workers:
    """An infinite DataLoader with two worker processes."""

    def __init__(self, index: ImageIndex) -> None:
        images = Decoded(index)
        forever = RandomSampler(images, replacement=True, num_samples=10**9)
        loader = DataLoader(
            images, BATCH, sampler=forever, num_workers=WORKERS, prefetch_factor=AHEAD
        )
        self.batches = iter(loader)

    def settle(self) -> None:
        """Let the workers fill their queue, so that they are idle during the other's round."""
        time.sleep(2.0)

    def drain(self) -> None:
        """Discard prefetched batches, so that a round measures only its own work."""
        for _ in range(WORKERS * AHEAD):
            next(self.batches)


def measure_rounds(ours: Iterator[object], theirs: Workers) -> dict[str, float]:
    """Best rate of each loader, in images per second."""
    best = {"riskmatch": 0.0, "worker processes": 0.0}

    def timed(name: str, batches: Iterator[object]) -> None:
        start = time.perf_counter()
        for _ in range(TURN):
            next(batches)
        rate = TURN * BATCH / (time.perf_counter() - start)
        best[name] = max(best[name], rate)

    for _ in range(ROUNDS):
        theirs.settle()
        timed("riskmatch", ours)
        theirs.drain()
        timed("worker processes", theirs.batches)
    return best


def main(folder: Path | None) -> None:
    keep_freed_memory()  # as `riskmatch train` does
    torch.set_num_threads(WORKERS)
    import_torchvision()
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "images"
            write_images(folder)
        index = pooled(index_folder(folder))
        print(f"{len(index):,} images: cache", flush=True)
        data = image_domains(index, cache=Path(temporary) / "cache")
        ours = Sampler(data.domains, BATCH, seed=0, augment=data.augment)
        for _ in data.domains[0].x.split(BATCH):  # read all pages once, as the first epoch does
            pass
        next(ours)  # starts the threads
        memory = measure.peak_megabytes(lambda: next(ours))
        rates = measure_rounds(ours, Workers(index))
    ratio = rates["riskmatch"] / rates["worker processes"]
    rows = [[name, f"{rate:,.0f}"] for name, rate in rates.items()]
    record = {
        "machine": measure.machine(),
        "images": len(index),
        "side": data.input_shape[1:],
        "batch": BATCH,
        "workers": WORKERS,
        "images_per_second": rates,
        "ratio": ratio,
        "peak_megabytes_of_a_batch": memory,
    }
    text = measure.table(["loader", "images per second"], rows)
    measure.save("images", record, f"{text}\nriskmatch is {ratio:.1f} times as fast.\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
