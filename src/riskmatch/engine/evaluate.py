"""A model on data: accuracy and risks, without a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from riskmatch.contract import RiskFunction, cross_entropy_risks
from riskmatch.data.domain import Domain
from riskmatch.records import LEVELS, Score, Split

CHUNK = 512
"""Samples per forward pass, at most."""
VALUES = 1 << 23
"""Input values per forward pass, at most: 55 images of 3 × 224 × 224."""


def evaluate(
    model: nn.Module,
    domains: Mapping[str, Mapping[Split, Domain]],
    risk: RiskFunction = cross_entropy_risks,
) -> dict[str, dict[Split, Score]]:
    """The score of every split of every domain.

    Random streams and the training mode of every layer are afterwards as they were.
    """
    with _untouched(model), torch.no_grad():
        return {
            name: {split: score(model, part, risk) for split, part in splits.items()}
            for name, splits in domains.items()
        }


def score(model: nn.Module, domain: Domain, risk: RiskFunction = cross_entropy_risks) -> Score:
    """The model on one domain, a chunk at a time so that memory is bounded."""
    risks, hits = [], []
    chunk = max(1, min(CHUNK, VALUES // math.prod(domain.x.shape[1:])))
    for x, y in zip(domain.x.split(chunk), domain.y.split(chunk), strict=True):
        _, logits = model(x)
        risks.append(risk(logits, y))
        hits.append(logits.argmax(1) == y)
    values = torch.cat(risks).double().cpu().numpy()
    return Score(
        accuracy=torch.cat(hits).double().mean().item(),
        risk=float(values.mean()),
        quantiles=tuple(np.quantile(values, LEVELS).tolist()),
    )


@contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    modes = {layer: layer.training for layer in model.modules()}
    devices = {p.device.index for p in model.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=devices):
        model.eval()
        try:
            yield
        finally:
            for layer, mode in modes.items():
                layer.training = mode
