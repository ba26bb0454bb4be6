"""Read a large cache of images and print the growth of memory as JSON: `walk_cache.py FILE`.

Only anonymous memory counts; the system can drop mapped pages.
"""

import json
import sys
from pathlib import Path

import torch

from riskmatch.data import Domain, Sampler, split
from riskmatch.data.domain import StoredImages
from riskmatch.data.images.augment import RandomView
from riskmatch.data.images.cache import map_pixels
from riskmatch.engine.evaluate import parts_of, predict

IMAGES, SIDE = 13_600, 227


class Dark(torch.nn.Module):
    def forward(self, x):
        features = x[:, :, ::16, ::16].float().mean((2, 3))
        return features, features[:, :2]


def anonymous():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("no RssAnon")


def main(file):
    size = IMAGES * SIDE * SIDE * 3
    with open(file, "wb") as out:
        out.truncate(size)  # sparse: it takes no space on disk
    stored = StoredImages(map_pixels(Path(file), IMAGES))
    labels = torch.zeros(IMAGES, dtype=torch.long)
    begin = anonymous()
    train = split(Domain("large", stored, labels), trial=0)["train"]
    sampler = Sampler([train], 32, seed=0, augment=RandomView(224))
    grown = 0.0
    for _ in range(12):
        next(sampler)
        grown = max(grown, anonymous() - begin)
    begin = anonymous()
    predict(Dark(), parts_of({"large": {"train": train}}))
    evaluated = anonymous() - begin
    growth = {"stored": size / 1e6, "grown by batches": grown, "grown by evaluation": evaluated}
    print(json.dumps(growth))


if __name__ == "__main__":
    main(sys.argv[1])
