"""A data set: two shapes under three amounts of noise."""

from __future__ import annotations

import torch

from riskmatch.data import Domain, DomainSet


def noisy_shapes(*, samples: int = 200, seed: int = 0) -> DomainSet:
    """A ring and a disc as points in the plane, noisier from domain to domain.

    Args:
        samples: number of points per domain.
        seed: seed of the points and of the noise.

    Input: (2,) coordinates. Label: 0 ring, 1 disc. Domains: calm, rough, stormy. Licence: CC0.
    """
    generator = torch.Generator().manual_seed(seed)
    domains = []
    for name, noise in {"calm": 0.05, "rough": 0.15, "stormy": 0.3}.items():
        y = torch.arange(samples) % 2
        angle = 2 * torch.pi * torch.rand(samples, generator=generator)
        radius = torch.where(y == 0, 1.0, 0.6 * torch.rand(samples, generator=generator).sqrt())
        x = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
        x = x + noise * torch.randn(samples, 2, generator=generator)
        domains.append(Domain(name, x, y))
    return DomainSet("noisy-shapes", tuple(domains), classes=2, class_names=("ring", "disc"))
