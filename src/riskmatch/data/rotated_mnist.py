"""RotatedMNIST: digits, rotated by a different angle in every domain."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.mnist import load_mnist
from riskmatch.data.sampler import stream

ANGLES: tuple[int, ...] = (0, 15, 30, 45, 60, 75)
"""Angles of the domains, in degrees counter-clockwise."""


def rotated_mnist(data_dir: Path | None = None, *, seed: int = 0) -> DomainSet:
    """RotatedMNIST: handwritten digits at six angles.

    Input
        (1, 28, 28), in [0, 1]: a grey digit, rotated counter-clockwise.
    Label
        The digit.
    Domains
        ``0``, ``15``, ``30``, ``45``, ``60`` and ``75``: the angle, in degrees.
    Size
        MNIST's 70,000 digits, shuffled and divided between the domains: 11,667 each in the first
        four, 11,666 in the others. No digit is in two domains.
    Licence
        CC BY-SA 3.0 (MNIST).
    Citation
        LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998; the rotations:
        Ghifary et al., Domain Generalization for Object Recognition with Multi-task Autoencoders,
        ICCV 2015.

    Args:
        data_dir: folder to search for MNIST first.
        seed: seed of the shuffle.
    """
    mnist = load_mnist(data_dir)
    images = torch.cat([mnist.train_images, mnist.test_images])
    digits = torch.cat([mnist.train_digits, mnist.test_digits])
    shuffled = torch.randperm(len(images), generator=stream("rotated-mnist", seed))
    domains = []
    for k, angle in enumerate(ANGLES):
        rows = shuffled[k :: len(ANGLES)]
        x = rotated(images[rows].float() / 255, angle)
        domains.append(Domain(str(angle), x[:, None], digits[rows].long()))
    return DomainSet("rotated-mnist", tuple(domains), classes=10)


def rotated(images: Tensor, degrees: float) -> Tensor:
    """Images (n, h, w), rotated counter-clockwise about their centre (bilinear, zero padding).

    Example:
        >>> rotated(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90).round()
        tensor([[[2., 4.],
                 [1., 3.]]])
    """
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    cos, sin = angle.cos().item(), angle.sin().item()
    maps = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
    grid = F.affine_grid(maps, [1, 1, *images.shape[1:]], align_corners=False)
    return F.grid_sample(images[None], grid, align_corners=False)[0]  # the images as channels
