"""Draw batches of images and print their hashes: `draw_batches.py FOLDER START STOP`."""

import hashlib
import itertools
import sys
from pathlib import Path

from riskmatch.data import Sampler
from riskmatch.data.images.cache import image_domains
from riskmatch.data.images.index import index_folder


def hashes(folder, start, stop):
    """Hashes of the batches from number ``start`` on."""
    data = image_domains(index_folder(folder / "data"), image_size=32, cache=folder / "cache")
    sampler = Sampler(data.domains, 3, seed=7, augment=data.augment)
    sampler.restore({"drawn": start})
    for batch in itertools.islice(sampler, stop - start):
        yield hashlib.sha256(batch.x.numpy().tobytes()).hexdigest() + str(batch.y.tolist())


if __name__ == "__main__":
    for line in hashes(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(line, flush=True)
