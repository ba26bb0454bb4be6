"""Seeded random streams and batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from riskmatch.data.domain import Augment, Batch, Domain
from riskmatch.files import seed_of


def stream(*key: str | int) -> torch.Generator:
    """A CPU generator seeded with the hash of ``key``, so that streams do not affect each other.

    Example:
        >>> first, second = (torch.rand(3, generator=stream("a", 0)) for _ in range(2))
        >>> torch.equal(first, second)
        True
    """
    return torch.Generator().manual_seed(seed_of(*key))


@dataclass(frozen=True)
class Share:
    """The part of a batch that one of several processes computes."""

    own: Batch
    """Samples of this process, without the boundaries of domains."""
    positions: Tensor
    """(k,) their positions in the batch. Empty where the batch has fewer samples than there are
    processes: then ``own`` is one sample that does not count."""
    whole: Batch
    """Labels and domains of the whole batch; its inputs (n, 0) are empty."""

    def to(self, device: torch.device | str) -> Share:
        """The share on another device."""
        return Share(self.own.to(device), self.positions.to(device), self.whole.to(device))

    def pinned(self) -> Share:
        """The share with inputs from which a GPU copies while it works."""
        return replace(self, own=self.own.pinned())


AHEAD = 2
"""Batches that are drawn while a GPU works on another."""


class Prefetched(Iterator[Any]):
    """Batches that a thread draws ahead, copied to a GPU while it works.

    The numbers of the batches, and so their bits, are those of drawing one after the other; what is
    drawn ahead counts only once it is returned, so an interrupted run continues with the same ones.

    Args:
        sampler: the batches; its state counts those that were returned.
        draw: the batch of a number, on the CPU.
        device: where they are used.

    Example:
        >>> sampler = Sampler([Domain("a", torch.arange(9.0)[:, None], torch.arange(9))], 2, seed=0)
        >>> batches = Prefetched(sampler, sampler.draw, torch.device("cpu"))
        >>> torch.equal(next(batches).x, sampler.draw(0).x), sampler.state()
        (True, {'drawn': 1})
    """

    def __init__(
        self, sampler: Sampler, draw: Callable[[int], Batch | Share], device: torch.device
    ) -> None:
        self._sampler, self._draw, self._device = sampler, draw, device
        self._thread = ThreadPoolExecutor(1, "batches")
        self._ahead: deque[Future[Batch | Share]] = deque()

    def __next__(self) -> Any:
        drawn = self._sampler.state()["drawn"]
        while len(self._ahead) <= AHEAD:
            self._ahead.append(self._thread.submit(self._make, drawn + len(self._ahead)))
        batch = self._ahead.popleft().result()
        self._sampler.restore({"drawn": drawn + 1})
        return batch.to(self._device)

    def _make(self, number: int) -> Batch | Share:
        batch = self._draw(number)
        return batch.pinned() if self._device.type == "cuda" else batch


class Sampler(Iterator[Batch]):
    """Infinite shuffled batches from several domains.

    Every domain has its own epochs. The order of an epoch follows from ``seed``, the domain's name
    and the epoch number, so the number of batches drawn is the whole state. Samples left at the
    end of an epoch, too few for a batch, are shuffled into the next; a domain smaller than the
    batch is used whole.

    With replacement, every sample of a batch is drawn from the whole domain, as DomainBed does.
    There are no epochs, and a domain smaller than the batch fills it with repetitions.

    Args:
        domains: at least one.
        batch_size: samples per domain; 0 uses every domain whole, the same batch each time, or
            draws as many samples as the domain has where ``replacement`` is set.
        seed: seed of the shuffles and of the augmentation.
        augment: applied to the inputs of every batch, with a generator that follows from ``seed``
            and the number of batches drawn.
        replacement: draw with replacement.
        device: device of the batches; by default that of the domains.

    Example:
        >>> domain = Domain("a", torch.arange(5.0)[:, None], torch.zeros(5, dtype=torch.long))
        >>> sampler = Sampler([domain], batch_size=2, seed=0)
        >>> sampler.restore({"drawn": 7})
        >>> next(sampler).sizes, sampler.state()
        ((2,), {'drawn': 8})
        >>> share = sampler.next_share(rank=1, processes=2)
        >>> share.positions, share.own.x.shape, share.whole.sizes
        (tensor([1]), torch.Size([1, 1]), (2,))
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        batch_size: int,
        seed: int,
        augment: Augment | None = None,
        replacement: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        if batch_size < 0:
            raise ValueError(
                f"batch_size must be 0 (domains whole) or a positive number, got {batch_size}."
            )
        self._domains = tuple(domains)
        self._size = batch_size
        self._seed = seed
        self._augment = augment
        self._replacement = replacement
        self._device = device
        self._drawn = 0
        self._orders: dict[str, tuple[int, Tensor]] = {}
        whole = all(self._size_in_batch(domain) == len(domain) for domain in self._domains)
        self._constant = whole and augment is None and not replacement
        self._names = tuple(domain.name for domain in self._domains)
        self._kept: dict[object, Batch | Share] = {}

    def __next__(self) -> Batch:
        batch = self.draw(self._drawn)
        self._drawn += 1
        return batch if self._device is None else batch.to(self._device)

    def draw(self, number: int) -> Batch:
        """The batch of a number, from 0, on the device of the domains."""
        if (kept := self._kept.get("whole")) is not None:
            assert isinstance(kept, Batch)
            return kept
        if self._constant:
            whole = Batch.join([(d.x[:], d.y) for d in self._domains], self._names)
            self._kept["whole"] = whole
            return whole
        rows = [(domain, self._rows(domain, number)) for domain in self._domains]
        return self._augmented(Batch.join([(d.x[r], d.y[r]) for d, r in rows], self._names), number)

    @property
    def sizes(self) -> dict[str, int]:
        """Samples of each domain in a batch."""
        return {domain.name: self._size_in_batch(domain) for domain in self._domains}

    def next_share(self, rank: int, processes: int) -> Share:
        """The samples of the next batch at the positions rank, rank + processes and so on.

        Together the shares are the batch that ``next`` returns, apart from augmentation, which has
        a random stream of its own on each process.
        """
        share = self.draw_share(rank, processes, self._drawn)
        self._drawn += 1
        return share if self._device is None else share.to(self._device)

    def draw_share(self, rank: int, processes: int, number: int) -> Share:
        """The share of a process in the batch of a number, on the device of the domains."""
        if (kept := self._kept.get((rank, processes))) is not None:
            assert isinstance(kept, Share)
            return kept
        rows = [(domain, self._rows(domain, number)) for domain in self._domains]
        sizes, y = tuple(len(r) for _, r in rows), torch.cat([d.y[r] for d, r in rows])
        whole = Batch(y.new_empty((len(y), 0)), y, sizes, self._names)
        parts, start = [], 0
        for (domain, chosen), size in zip(rows, sizes, strict=True):
            if len(mine := chosen[(rank - start) % processes :: processes]):
                parts.append((domain.x[mine], domain.y[mine]))
            start += size
        first = self._domains[0]
        batch = Batch.join(parts or [(first.x[:1], first.y[:1])])
        batch = self._augmented(replace(batch, sizes=(len(batch.y),), names=()), number, rank)
        share = Share(batch, torch.arange(len(y), device=y.device)[rank::processes], whole)
        if self._constant:
            self._kept[rank, processes] = share
        return share

    def _augmented(self, batch: Batch, *key: int) -> Batch:
        if self._augment is None:
            return batch
        # After joining: augmented inputs are four times as large, and joining copies them.
        assert isinstance(batch.x, Tensor)  # only data sets of images define an augmentation
        return replace(batch, x=self._augment(batch.x, stream("augment", self._seed, *key)))

    def state(self) -> dict[str, int]:
        """State for :meth:`restore`."""
        return {"drawn": self._drawn}

    def restore(self, state: dict[str, int]) -> None:
        """Continue from a state that :meth:`state` returned."""
        self._drawn = state["drawn"]

    def _size_in_batch(self, domain: Domain) -> int:
        size = self._size or len(domain)
        return size if self._replacement else min(size, len(domain))

    def _rows(self, domain: Domain, number: int) -> Tensor:
        """Positions of the samples of a batch in their domain."""
        if self._constant:
            return torch.arange(len(domain), device=domain.x.device)
        if self._replacement:
            generator = stream("replacement", self._seed, domain.name, number)
            shape = (self._size_in_batch(domain),)
            return torch.randint(len(domain), shape, generator=generator).to(domain.x.device)
        size = self._size_in_batch(domain)
        epoch, position = divmod(number, len(domain) // size)
        return self._order(domain, epoch)[position * size : (position + 1) * size]

    def _order(self, domain: Domain, epoch: int) -> Tensor:
        cached = self._orders.get(domain.name)
        if cached is None or cached[0] != epoch:
            generator = stream("batches", self._seed, domain.name, epoch)
            order = torch.randperm(len(domain), generator=generator).to(domain.x.device)
            cached = self._orders[domain.name] = (epoch, order)
        return cached[1]
