"""Small images and a simple augmentation."""

from dataclasses import dataclass

import torch

from riskmatch.data import Domain, DomainSet


def pictures(name, n, seed, side=40):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=generator)
    return Domain(name, x, torch.arange(n) % 2)


@dataclass(frozen=True)
class Darker:
    """Scale to [0, 1] and darken each image by a random share."""

    most: float = 0.5

    def __call__(self, x, generator):
        shares = torch.rand(len(x), 1, 1, 1, generator=generator)
        return x / 255 * (1 - self.most * shares)


def two_domains(**changes):
    domains = (pictures("art", 5, 0), pictures("photo", 3, 1))
    settings = {"classes": 2, "class_names": ("cat", "dog"), "augment": Darker(), **changes}
    return DomainSet("pets", domains, **settings)
