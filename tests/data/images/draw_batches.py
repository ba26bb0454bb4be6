"""Draw batches of images and say their hashes: `draw_batches.py FOLDER START STOP`."""

import hashlib
import sys
from pathlib import Path

import torch

from riskmatch.data import Sampler
from riskmatch.data.images.dataset import image_domains
from riskmatch.data.images.folder import index_folder


def main(folder, start, stop):
    torch.set_num_threads(1)
    found = image_domains(index_folder(folder / "data"), image_size=32, cache=folder / "cache")
    sampler = Sampler(found.domains, 3, seed=7, augment=found.augment)
    sampler.restore({"drawn": start})
    for _ in range(start, stop):
        batch = next(sampler)
        print(hashlib.sha256(batch.x.numpy().tobytes()).hexdigest(), batch.y.tolist(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
