"""A domain's training and validation samples."""

from __future__ import annotations

from dataclasses import replace

import torch

from riskmatch.data.domain import Domain
from riskmatch.data.streams import stream

HELD_OUT = 0.2


def split(domain: Domain, trial: int) -> dict[str, Domain]:
    """The domain as ``train`` (80 %) and ``val`` (20 %, at least one sample).

    The draw depends on the domain's name and size and on ``trial``, and on nothing else: adding a
    domain to a data set changes no other split. Samples keep their order. Where the data set says
    itself which samples are for validation, that holds, whatever the trial.

    Example:
        >>> whole = Domain("sketch", torch.zeros(10, 2), torch.zeros(10, dtype=torch.long))
        >>> {name: len(part) for name, part in split(whole, trial=0).items()}
        {'train': 8, 'val': 2}
    """
    if domain.validation is not None:
        return {"train": replace(domain, validation=None), "val": domain.validation}
    n = len(domain)
    if n < 2:
        raise ValueError(f"Domain '{domain.name}' has {n} sample(s); a split needs two or more.")
    order = torch.randperm(n, generator=stream("split", trial, domain.name))
    held_out = max(1, round(HELD_OUT * n))
    rows = {"train": order[held_out:], "val": order[:held_out]}
    return {name: domain.take(part.sort().values) for name, part in rows.items()}
