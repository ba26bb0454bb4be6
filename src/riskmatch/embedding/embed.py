"""A data set of images as one of features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from riskmatch.data.domain import Augment, Domain, DomainSet
from riskmatch.data.places import cache_folder
from riskmatch.data.progress import OnProgress
from riskmatch.data.streams import stream
from riskmatch.embedding.fingerprint import content_of, weights_of
from riskmatch.embedding.store import made_once
from riskmatch.models.trunk import Trunk, trunk
from riskmatch.validation import check_options

FORMAT = 1
"""To be raised when the same images would get other features."""
CHUNK = 8
"""Images per forward pass: few enough for the processor's cache."""


def embed(
    domains: DomainSet,
    model: str,
    options: Mapping[str, Any] | None = None,
    *,
    views: int = 1,
    cache: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """The data set with the features of a frozen backbone as inputs, kept on the disk.

    Features are found again by the content of the images and the backbone with its weights and
    preprocessing. Each view of each domain is a file, so a stop loses the one at work and more
    views need only the new ones.

    Args:
        domains: of images.
        model: the backbone, see :func:`~riskmatch.models.trunk.trunk`.
        options: the backbone's own: ``pretrained``, ``weights`` and ``size``.
        views: of each image: the first is the image as it is, the others are augmented as in
            training. Training takes one at random, evaluation the first.
        cache: the folder for features; by default one in the user's own cache.
        device: where the backbone works; the features come back on the CPU.
        on_progress: told of every domain and view, how many images are done, and of how many.

    Returns:
        The data set with inputs (n, width), or (n, views, width) where there are several.
    """
    check_options(f"the backbone {model}", options or {}, trunk)
    if views < 1 or (views > 1 and domains.augment is None):
        cause = "nothing augments its images" if views > 1 else "one is the least"
        raise ValueError(f"'{domains.name}' cannot have {views} views: {cause}.")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # of weights that are not pretrained
        backbone = trunk(model, **options or {}).to(device).eval()
    work = _Work(
        backbone,
        json.dumps([FORMAT, model, weights_of(backbone), repr(backbone.preprocess)]),
        views,
        domains.augment,
        cache or cache_folder() / "features",
        (lambda *_: None) if on_progress is None else on_progress,
    )
    return replace(
        domains,
        domains=tuple(work.embedded(domain) for domain in domains.domains),
        augment=None if views == 1 else random_view,
    )


def random_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """One view of each sample, (n, views, d) → (n, d)."""
    chosen = torch.randint(x.shape[1], (len(x),), generator=generator).to(x.device)
    return x[torch.arange(len(x), device=x.device), chosen]


@dataclass(frozen=True)
class _Work:
    backbone: Trunk
    identity: str
    """Of the backbone."""
    views: int
    augment: Augment | None
    folder: Path
    report: OnProgress

    def embedded(self, domain: Domain) -> Domain:
        """The domain with features as inputs."""
        content = content_of(domain.x)
        views = [self._view(domain, content, number) for number in range(self.views)]
        return replace(
            domain,
            x=views[0] if self.views == 1 else torch.stack(views, 1),
            validation=domain.validation and self.embedded(domain.validation),
        )

    def _view(self, domain: Domain, content: str, number: int) -> Tensor:
        """(n, width) the features of every image, augmented unless ``number`` is 0."""
        seen = "as it is" if number == 0 else f"{self.augment!r}, {domain.name}, {number}"
        key = hashlib.sha256(json.dumps([self.identity, content, seen]).encode()).hexdigest()
        label = f"embedding {domain.name}" + (f", view {number + 1}" if number else "")
        return made_once(
            self.folder / f"{key[:24]}.safetensors",
            lambda: self._features(domain, number, label),
            lambda: self.report("waiting for another process", 0, None),
        )

    @torch.no_grad()
    def _features(self, domain: Domain, number: int, label: str) -> Tensor:
        parameter = next(self.backbone.parameters())
        out = torch.empty(len(domain), self.backbone.width)
        generator = stream("view", domain.name, number)
        for start in range(0, len(domain), CHUNK):
            x = domain.x[start : start + CHUNK].to(parameter.device)
            if number and self.augment is not None:
                x = self.augment(x, generator)
            out[start : start + CHUNK] = self.backbone(x)
            self.report(label, min(start + CHUNK, len(domain)), len(domain))
        return out
