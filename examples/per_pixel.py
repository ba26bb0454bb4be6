"""A task of your own: a label per pixel, the risk of an image being the mean over its pixels.

A disc is to be found in images of two channels. In the first it shows through noise, everywhere
alike; in the second without noise, but in a wrong place in 5 % and 25 % of the images of the
training sites, and in 90 % at the new site.

Run: python examples/per_pixel.py [PNG]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import riskmatch
from riskmatch.contract.task import Task
from riskmatch.metrics import Metric

MISPLACED, IMAGES, SIDE = {"first": 0.05, "second": 0.25, "new": 0.9}, 200, 16


def risks(outputs: Tensor, y: Tensor) -> Tensor:
    """Risks (n,) of outputs and labels (n, h, w)."""
    return binary_cross_entropy_with_logits(outputs, y, reduction="none").mean((1, 2))


def iou(y: np.ndarray, predicted: np.ndarray, scores: np.ndarray | None) -> float:
    """Mean over the images of the intersection with the disc by the union with it."""
    both, either = (y * predicted).sum((1, 2)), np.maximum(y, predicted).sum((1, 2))
    return float(np.mean(both / either))


IOU = Metric(title="IoU", range=(0, 1), function=iou)
NAME = "per_pixel:IOU"
PIXELS = Task(risks, lambda outputs: ((outputs > 0).float(), outputs.sigmoid()), (NAME,), NAME)


def site(misplaced: float, seed: int) -> tuple[Tensor, Tensor]:
    """Images (n, 2, h, w), and discs (n, h, w)."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(IMAGES, 2, 1, 1, generator=generator) * (SIDE - 8) + 4
    across, down = torch.arange(SIDE) + 0.5, torch.arange(SIDE)[:, None] + 0.5
    y = ((across - centre[:, 0]) ** 2 + (down - centre[:, 1]) ** 2 < 12).float()
    wrong = torch.rand(IMAGES, 1, 1, generator=generator) < misplaced
    noisy = y + 0.7 * torch.randn(y.shape, generator=generator)
    return torch.stack([noisy, torch.where(wrong, y.roll((8, 8), (1, 2)), y)], 1), y


def main(out: str = "out/per_pixel.png") -> None:
    """Train a linear filter, and draw images of every site and what it finds in them."""
    data = {name: site(share, seed) for seed, (name, share) in enumerate(MISPLACED.items())}
    network = nn.Sequential(nn.Conv2d(2, 1, 7, padding=3), nn.Flatten(1, 2))
    options = {"steps": 200, "warmup": 100, "lr": 0.02, "weight": 1.0, "task": "per_pixel:PIXELS"}
    options |= {"model": network, "batch_size": 32, "out": tempfile.mkdtemp()}
    run = riskmatch.train(data, "rdm", "new", **options)
    scores = run.record.evaluations[-1].scores
    figure, panels = plt.subplots(3, 4, figsize=(8, 6), layout="constrained")
    for row, (name, (x, y)) in zip(panels, data.items(), strict=True):
        with torch.no_grad():
            found = run.model(network)(x[:1]).sigmoid()[0]
        value = scores[name]["val"].metrics[NAME]
        titles = f"{name} site", "second channel", "disc", f"found: IoU {value:.2f}"
        pictures = (*x[0], y[0], found)
        for axes, title, picture in zip(row, titles, pictures, strict=True):
            axes.imshow(picture, cmap="gray")
            axes.set(title=title, xticks=[], yticks=[])
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
