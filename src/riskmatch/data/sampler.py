"""Batches without end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from riskmatch.data.batch import Batch
from riskmatch.data.domain import Augment, Domain
from riskmatch.data.streams import stream


class Sampler(Iterator[Batch]):
    """Shuffled batches of several domains, for ever.

    Every domain goes through epochs of its own. The order of an epoch follows from ``seed``, the
    domain's name and the number of the epoch, so the count of batches drawn is the whole state.
    What is left at the end of an epoch, too little for a batch, waits for the next shuffle; a
    domain smaller than the batch is taken whole.

    Args:
        domains: at least one.
        batch_size: samples per domain; 0 takes every domain whole, the same batch each time.
        seed: of the shuffles and the augmentation.
        augment: what becomes of a batch's inputs, every time anew. Its generator follows from
            ``seed`` and the count of batches drawn.

    Example:
        >>> domain = Domain("a", torch.arange(5.0)[:, None], torch.zeros(5, dtype=torch.long))
        >>> sampler = Sampler([domain], batch_size=2, seed=0)
        >>> sampler.restore({"drawn": 7})
        >>> next(sampler).sizes, sampler.state()
        ((2,), {'drawn': 8})
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        batch_size: int,
        seed: int,
        augment: Augment | None = None,
    ) -> None:
        if batch_size < 0:
            raise ValueError(f"batch_size must be 0 (domains whole) or more, got {batch_size}.")
        self._domains = tuple(domains)
        self._size = batch_size
        self._seed = seed
        self._augment = augment
        self._drawn = 0
        self._orders: dict[str, tuple[int, Tensor]] = {}
        whole = all(self._share(domain) == len(domain) for domain in self._domains)
        always = whole and augment is None
        self._whole = Batch.join([(d.x[:], d.y) for d in self._domains]) if always else None

    def __next__(self) -> Batch:
        batch = self._whole or Batch.join([self._draw(domain) for domain in self._domains])
        if self._augment is not None:
            # On the joined batch: joining what comes out, four times as large, takes as long again.
            x = self._augment(batch.x, stream("augment", self._seed, self._drawn))
            batch = replace(batch, x=x)
        self._drawn += 1
        return batch

    def state(self) -> dict[str, int]:
        """What :meth:`restore` needs to go on from here."""
        return {"drawn": self._drawn}

    def restore(self, state: dict[str, int]) -> None:
        """Go on from where :meth:`state` was called."""
        self._drawn = state["drawn"]

    def _share(self, domain: Domain) -> int:
        return min(self._size or len(domain), len(domain))

    def _draw(self, domain: Domain) -> tuple[Tensor, Tensor]:
        share = self._share(domain)
        epoch, place = divmod(self._drawn, len(domain) // share)
        rows = self._order(domain, epoch)[place * share : (place + 1) * share]
        return domain.x[rows], domain.y[rows]

    def _order(self, domain: Domain, epoch: int) -> Tensor:
        known = self._orders.get(domain.name)
        if known is None or known[0] != epoch:
            generator = stream("batches", self._seed, domain.name, epoch)
            order = torch.randperm(len(domain), generator=generator).to(domain.x.device)
            known = self._orders[domain.name] = (epoch, order)
        return known[1]
